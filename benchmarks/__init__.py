"""How fast kfed is, as ratios to competitors measured in the same run, and what a million devices would cost.

``make bench`` and ``make scale`` run it; nothing of this is in the wheel. Contestants take turns and medians are
compared (`figures.race`). The workloads: `devices` has W1 to W4, `servers` S1 to S3, `messages` what a message and an
import cost, `federated` training; `coordinator` and `partitions` are services.
"""
