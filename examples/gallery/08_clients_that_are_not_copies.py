"""
Clients that are not copies of each other
=========================================

Picking clients for a round of training by their loss alone picks the same kind again and again. Who knows the groups
can take at most one client of each.
"""

import matplotlib.pyplot as plt
import numpy as np

from kfed.federated import KFedPowerOfChoice, PowerOfChoice, RandomSelection

N_CLIENTS, N_ROUNDS, N_PICKED = 40, 60, 4
group_of = np.repeat([0, 1, 2, 3], 10)
sizes = np.full(N_CLIENTS, 100)
rng = np.random.default_rng(0)

# %%
# A toy of training: a group's loss falls each time that one of it is picked.
selections = {
    "at random": RandomSelection(N_CLIENTS, seed=0),
    "by loss": PowerOfChoice(sizes, n_candidates=20, seed=0),
    "by loss, one of each group": KFedPowerOfChoice(sizes, group_of, n_candidates=20, seed=0),
}
kinds = {}
for name, selection in selections.items():
    loss = np.array([1.0, 0.8, 0.6, 0.4])
    kinds[name] = []
    for round in range(N_ROUNDS):
        picked = selection.select(round, N_PICKED, loss[group_of] + 0.02 * rng.normal(size=N_CLIENTS))
        kinds[name].append(len(set(group_of[picked])))
        loss = 0.999 * loss
        loss[group_of[picked]] *= 0.99

fig, ax = plt.subplots()
ax.boxplot(list(kinds.values()), tick_labels=list(kinds), whis=(0, 100))
ax.set_ylabel(f"different groups among {N_PICKED} clients of a round")
ax.set_ylim(0.8, 4.2)
plt.show()
