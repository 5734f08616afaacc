"""Groups are found by what matters to the model, useless ones are told, and late devices get their group's model."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from federated_worlds import fleet  # noqa: E402

import kfed  # noqa: E402
from kfed.federated import FedAvg, described_by, fit_global, fit_ifca, fit_personalized, update_point  # noqa: E402

TRAINING = FedAvg(rounds=12, clients_per_round=8, batch_size=20, learning_rate=0.5)
N_DEVICES, N_CLASSES = 16, 4


def linear():
    return torch.nn.Linear(6, N_CLASSES)


def world(kind, seed=0, n_devices=N_DEVICES, n_rows=60):
    """Devices of two groups in turn: labels swapped, inputs moved, or no difference."""
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(99).normal(size=(6, N_CLASSES))
    devices = {}
    for i in range(n_devices):
        inputs, group = rng.normal(size=(n_rows, 6)), i % 2
        targets = (inputs @ weights).argmax(axis=1)
        if group and kind == "labels":
            targets = (targets + 1) % N_CLASSES
        if group and kind == "inputs":
            inputs = inputs + 6
            targets = ((inputs - 6) @ weights[:, ::-1]).argmax(axis=1)
        devices[f"device-{i:02}"] = inputs.astype(np.float32), targets
    return devices


def fit(devices, silent=True, **options):
    """Fit two groups; give the models and the codes of the warnings about groups."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        models = fit_personalized(devices, 2, linear, options.pop("training", TRAINING), rule="robust", **options)
    return models, [one.message.code for one in caught if getattr(one.message, "code", "")]


def by_group(models):
    """The groups of devices that have the same parity."""
    route = {name: set(models.route(name, torch.zeros(1, 6)).tolist()) for name in models.device_ids}
    return [set().union(*(own for name, own in route.items() if int(name[-2:]) % 2 == odd)) for odd in (0, 1)]


@pytest.mark.parametrize("by", ["updates", "auto"])
def test_swapped_labels_show_in_updates(by):
    models, codes = fit(world("labels"), by=by)
    assert codes == []
    assert sorted(by_group(models), key=min) == [{0}, {1}]
    assert models.by == "updates"
    assert models.worth.share == 1.0
    assert models.evaluate(world("labels", seed=1)).accuracy > 0.9


def test_moved_inputs_are_grouped_by_inputs():
    models, codes = fit(world("inputs"), by="auto")
    assert (codes, models.by) == ([], "inputs")
    assert models.worth.matters


def test_groups_that_do_not_matter_are_told_and_merged_if_asked():
    devices, tests = world("none"), world("none", seed=1)
    for options in ({}, {"by": "updates"}, {"by": "auto"}, {"clusters": [0, 0, 1, 1] * 4}):
        models, codes = fit(devices, training=FedAvg(rounds=2), **options)
        assert codes == ["groups-do-not-matter"]
        assert models.n_models == 2
        assert not models.worth.matters
    assert fit(world("labels"), training=FedAvg(rounds=2))[1] == ["groups-do-not-matter"]  # by inputs
    merged, codes = fit(devices, if_useless="merge")
    assert (codes, merged.n_models) == (["groups-do-not-matter"], 1)
    one = fit_global(devices, linear, TRAINING)
    assert merged.evaluate(tests).accuracy == pytest.approx(one.evaluate(tests).accuracy)
    late = merged.add("device-99", world("none", seed=2)["device-00"][0])
    assert late.route("device-99", torch.zeros(2, 6)).tolist() == [0, 0]


def test_without_looking_nothing_more_is_sent():
    looked, _ = fit(world("inputs"), training=FedAvg(rounds=1))
    ignored, codes = fit(world("none"), training=FedAvg(rounds=1), if_useless="ignore")
    assert (codes, ignored.worth) == ([], None)
    assert ignored.communication.bytes_down + looked.worth.communication.bytes_down == looked.communication.bytes_down
    models_down = N_DEVICES * (6 * N_CLASSES + N_CLASSES) * 4
    assert looked.worth.communication.bytes_down > models_down


def test_groups_can_be_given_in_order_or_by_name():
    groups = [0, 1] * (N_DEVICES // 2)
    devices = world("labels")
    ordered, _ = fit(devices, clusters=groups)
    named, _ = fit(devices, clusters=dict(reversed(list(zip(devices, groups, strict=True)))))
    assert ordered.by == named.by == "given"
    assert by_group(ordered) == by_group(named) == [{0}, {1}]
    assert ordered.evaluate(world("labels", seed=1)).accuracy > 0.9
    with pytest.raises(kfed.InvalidInputError, match="there is no clustering"):
        _ = ordered.clustering


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"clusters": [0, 1]}, "one entry for each of 16 devices"),
        ({"clusters": [0, 2] * 8}, "whole numbers from 0 to 1"),
        ({"clusters": {"device-00": 1}}, "one entry for each of 16 devices"),
        ({"by": "magic"}, "by must be"),
        ({"if_useless": "cry"}, "if_useless must be"),
        ({"features": lambda inputs: inputs[:3]}, "one row for each of the 60 rows of a device, or one for the device"),
    ],
)
def test_what_cannot_be_grouped_is_refused(options, said):
    with pytest.raises(kfed.InvalidInputError, match=said):
        fit(world("none"), **options)


def histogram(inputs, targets):
    return np.bincount(targets, minlength=N_CLASSES) / len(targets)


def test_label_histograms_group_devices_by_their_classes():
    devices = {
        f"device-{i:02}": (np.random.default_rng(i).normal(size=(40, 6)), np.arange(40) % 2 + 2 * (i % 2))
        for i in range(8)
    }
    models, _ = fit(devices, features=histogram, if_useless="ignore")
    assert models.by == "features"
    assert sorted(by_group(models), key=min) == [{0}, {1}]
    again, _ = fit(devices, features=lambda inputs, targets: histogram(inputs, targets)[None], if_useless="ignore")
    assert by_group(again) == by_group(models)
    with pytest.raises(kfed.InvalidInputError, match="targets must be given: devices are grouped by features"):
        models.add("late", devices["device-00"][0])
    late = models.add("late", *devices["device-01"])
    assert set(late.route("late", torch.zeros(1, 6))) == by_group(models)[1]


def test_embeddings_are_features_of_inputs():
    models, _ = fit(world("inputs"), features=lambda inputs: inputs.mean(dim=1, keepdim=True))
    assert sorted(by_group(models), key=min) == [{0}, {1}]
    assert models.by == "inputs"


def test_devices_of_one_row_are_told_what_withholds_them():
    rng = np.random.default_rng(0)
    devices = [(rng.normal(size=(1, 6)) + 9 * (i % 2), [i % 2]) for i in range(6)]
    with pytest.raises(kfed.TooFewCentersError, match=r"min_cluster_size=3 different rows.* by='updates'"):
        fit(devices)
    models, _ = fit(devices, min_cluster_size=1, if_useless="ignore", training=FedAvg(rounds=1))
    assert models.clustering.aggregation.n_clusters == 2


def test_a_device_with_few_rows_sends_no_update_and_picks_its_group_itself():
    devices = world("labels")
    inputs, targets = devices["device-03"]
    devices["device-03"] = inputs[:2], targets[:2]
    models, _ = fit(devices, by="updates", training=FedAvg(rounds=1))
    message = models.clustering.aggregation.messages.message("device-03")
    assert len(message.centers) == 0
    assert models.route("device-03", torch.zeros(1, 6)).tolist()[0] in (0, 1)


@pytest.mark.parametrize(("kind", "by"), [("inputs", "inputs"), ("labels", "updates")])
def test_a_late_device_gets_the_model_of_its_group_at_once(kind, by):
    models, _ = fit(world(kind), by=by)
    others, tests = world(kind, seed=5, n_devices=4), world(kind, seed=6, n_devices=4)
    late = models
    for i, (inputs, targets) in enumerate(others.values()):
        late = late.add(f"late-{i:02}", inputs, targets)
    assert "late-00" not in models.device_ids
    assert sorted(by_group(late), key=min) == [{0}, {1}]  # members and newcomers of a kind share a model
    members = models.evaluate(world(kind, seed=1)).accuracy
    served = late.evaluate({f"late-{i:02}": rows for i, rows in enumerate(tests.values())}).accuracy
    assert served > members - 0.05
    with pytest.raises(kfed.InvalidInputError, match="'late-00' took part already"):
        late.add("late-00", *others["device-00"])


def test_a_late_device_by_inputs_needs_no_targets_and_by_updates_does():
    inputs = world("inputs", seed=5)["device-01"][0]
    late = fit(world("inputs"))[0].add("late-01", inputs)
    assert sorted(by_group(late), key=min) == [{0}, {1}]
    with pytest.raises(kfed.InvalidInputError, match="targets must be given: devices are grouped by updates"):
        fit(world("labels"), by="updates", training=FedAvg(rounds=1))[0].add("late-01", inputs)


def test_late_devices_of_other_methods_get_a_model_too():
    devices = world("labels")
    late = world("labels", seed=5)["device-01"]
    assert fit_global(devices, linear, FedAvg(rounds=1)).add("late", late[0]).route("late", late[0][:1]).tolist() == [0]
    ifca = fit_ifca(devices, 2, linear, TRAINING, n_starts=3, start_rounds=5)
    assert ifca.add("late", *late).route("late", late[0][:1]).tolist() == [ifca.choices["device-01"]]
    with pytest.raises(kfed.InvalidInputError, match="targets must be given"):
        ifca.add("late", late[0])
    given, _ = fit(devices, clusters=[0, 1] * 8, training=FedAvg(rounds=1))
    assert given.add("late", late[0], group=1).route("late", late[0][:1]).tolist() == [1]
    with pytest.raises(kfed.InvalidInputError, match="name the group of a late device"):
        given.add("late", late[0])


def test_an_update_is_one_point_of_length_one_and_its_direction_counts():
    rng = np.random.default_rng(0)
    start = [rng.normal(size=(30, 20)), rng.normal(size=20)]
    moves = [[rng.normal(size=values.shape) for values in start] for _ in range(2)]

    def point(move, size=1.0):
        return update_point(start, [old + size * step for old, step in zip(start, move, strict=True)], seed=3)

    one, other = map(point, moves)
    assert np.linalg.norm(one) == pytest.approx(1.0)
    np.testing.assert_allclose(one, point(moves[0], 7.0), atol=1e-8)
    np.testing.assert_allclose(one, -point(moves[0], -1.0), atol=1e-8)
    assert abs(one @ other) < 0.3  # two random directions in so many dimensions are nearly orthogonal
    assert np.array_equal(update_point(start, start), np.zeros_like(one))
    with pytest.raises(kfed.InvalidInputError, match="the same shapes"):
        update_point(start, [start[1], start[0]])


def test_a_device_that_is_described_by_one_point_keeps_it_in_a_file():
    local = described_by([3.0, 4.0], 40)
    again = kfed.LocalClustering.from_bytes(local.to_bytes())
    assert again.to_message("a") == local.to_message("a")
    assert local.to_message("a").sums_of_squares is None
    assert again.n_points == 40
    assert len(described_by([3.0, 4.0], 2).to_message("a").centers) == 0


def test_a_device_learns_the_same_first_update_whoever_else_is_there():
    devices = world("labels")
    whole, _ = fit(devices, by="updates", training=FedAvg(rounds=1))
    part, _ = fit(dict(list(devices.items())[:6]), by="updates", training=FedAvg(rounds=1))
    for name in part.device_ids:
        ours, theirs = (models.clustering.local[name].centers for models in (part, whole))
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_two_kinds_of_rows_on_each_device_are_judged_by_their_shares():
    models = fit_personalized(fleet(8, kinds_of=lambda i: [0, 1]), 2, lambda: torch.nn.Linear(3, 2), n_local_clusters=2)
    assert models.worth.n_judged == 16
    assert models.worth.matters
