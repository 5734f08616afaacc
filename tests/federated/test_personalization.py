"""One model for each cluster beats one for all, and every method counts what it sends."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from federated_worlds import fleet  # noqa: E402
from trainings import linear  # noqa: E402

import kfed  # noqa: E402
from kfed.federated import ByLabel, FedAvg, Fleet, fit_global, fit_ifca, fit_personalized  # noqa: E402
from kfed.federated.groups import cluster_once  # noqa: E402

TRAINING = FedAvg(rounds=80, clients_per_round=5, batch_size=20, learning_rate=0.3, batched=True)
SHORT = replace(TRAINING, rounds=8)
"""For what does not depend on how well the models are trained."""

MODEL_BYTES = (3 * 2 + 2) * 4


@pytest.fixture(scope="module")
def ifca():
    """Trained on two kinds of devices."""
    return fit_ifca(fleet(8), 2, linear, replace(TRAINING, rounds=40), n_starts=4, start_rounds=5)


@pytest.fixture(scope="module")
def personal():
    """Trained for a few rounds on devices with rows of both kinds."""
    return fit_personalized(fleet(8, kinds_of=lambda i: [0, 1]), 2, linear, SHORT, n_local_clusters=2)


@pytest.mark.slow
def test_one_model_for_each_cluster_serves_kinds_that_one_model_cannot(two_kinds):
    tests = fleet(8, seed=1)
    personal = fit_personalized(two_kinds, 2, linear, TRAINING)
    assert personal.evaluate(tests).accuracy > 0.97
    assert fit_global(two_kinds, linear, TRAINING).evaluate(tests).accuracy < 0.9


@pytest.mark.slow
def test_a_device_with_rows_of_two_clusters_trains_each_model_on_its_share(mixed):
    tests = fleet(8, seed=1, kinds_of=lambda i: [0, 1])
    personal = fit_personalized(mixed, 2, linear, TRAINING, n_local_clusters=2)
    assert personal.evaluate(tests).accuracy > 0.97
    for device_id, (inputs, _) in tests.items():
        models = personal.route(device_id, inputs)
        kinds = np.repeat([0, 1], len(inputs) // 2)
        assert len(set(zip(models, kinds, strict=True))) == 2  # each kind has a model of its own


def test_a_training_row_goes_to_the_model_that_it_trained(mixed):
    clustering = cluster_once(Fleet.of(mixed), 2, n_local_clusters=2)
    routed = [clustering.route(name, torch.tensor(inputs)) for name, (inputs, _) in mixed.items()]
    assert np.mean(np.concatenate(routed) == clustering.labels) == 1.0


def test_shares_split_the_rows_and_the_batch_of_a_device(mixed):
    data = Fleet.of(mixed)
    clustering = cluster_once(data, 2, n_local_clusters=2)
    shares = ByLabel(data, clustering.labels).shares(None, np.arange(data.n_devices), batch_size=20)
    for device in range(data.n_devices):
        own = [share for share in shares if share.device == device]
        assert np.array_equal(np.sort(np.concatenate([share.rows for share in own])), data.rows(device))
        assert sum(share.batch_size for share in own) == 20
        for share in own:
            assert (clustering.labels[share.rows] == share.model).all()


def test_a_device_without_rows_of_a_cluster_neither_gets_nor_trains_its_model(two_kinds):
    models = fit_personalized(two_kinds, 2, linear, SHORT, n_local_clusters=1)
    for record in models.history:
        assert record.communication.bytes_down == 5 * MODEL_BYTES
        assert record.communication.bytes_up == 5 * MODEL_BYTES


def test_kfed_sends_one_model_a_round_where_ifca_sends_all(two_kinds):
    personal, ifca = fit_personalized(two_kinds, 2, linear, SHORT), fit_ifca(two_kinds, 2, linear, SHORT)
    one = fit_global(two_kinds, linear, SHORT)
    clustering, looking = personal.clustering.communication, personal.worth.communication
    assert clustering.rounds == 1
    assert clustering.bytes_up == sum(
        len(local.to_message(name).to_bytes()) for name, local in personal.clustering.local.items()
    )
    assert looking.bytes_down > 8 * MODEL_BYTES
    found = clustering.bytes_down + looking.bytes_down
    assert personal.communication.bytes_down - found == one.communication.bytes_down
    assert ifca.communication.bytes_down == 2 * one.communication.bytes_down
    assert ifca.communication.bytes_up == one.communication.bytes_up == SHORT.rounds * 5 * MODEL_BYTES


def test_ifca_finds_the_two_kinds_and_says_how_many_models_are_in_use(ifca):
    assert ifca.n_models_in_use == 2
    assert ifca.evaluate(fleet(8, seed=1)).accuracy > 0.97
    assert len({ifca.choices[f"device-{i}"] for i in range(0, 8, 2)}) == 1


def test_ifca_never_chooses_a_model_that_was_not_trained():
    """Its first loss may be the lowest where training spoils all others, as a rate that is too high does."""
    training = FedAvg(rounds=3, clients_per_round=2, learning_rate=500.0)
    ifca = fit_ifca(fleet(8), 6, linear, training)
    trained = {model for record in ifca.history for model in record.models}
    assert set(ifca.choices.values()) <= trained
    assert ifca.n_models_in_use <= len(trained) < 6


def test_ifca_chooses_by_training_data_alone(ifca, two_kinds):
    flipped = {name: (inputs, 1 - targets) for name, (inputs, targets) in two_kinds.items()}
    for name, (inputs, _) in flipped.items():
        assert (ifca.route(name, inputs) == ifca.choices[name]).all()
    right, wrong = ifca.evaluate(two_kinds).accuracy, ifca.evaluate(flipped).accuracy
    assert right + wrong == pytest.approx(1.0)


def test_shared_rounds_are_those_of_one_global_model_and_then_models_part(two_kinds):
    training = FedAvg(rounds=8, shared_rounds=5, clients_per_round=5, batch_size=20)
    apart = []

    def observe(round, stack):
        apart.append(max(float((values[0] - values[1]).abs().max()) for values in stack.parameters.values()))
        return {}

    personal = fit_personalized(two_kinds, 2, linear, training, observe=observe)
    one = fit_global(two_kinds, linear, training)
    assert [record.loss for record in personal.history[:5]] == [record.loss for record in one.history[:5]]
    assert personal.history[5].loss != one.history[5].loss
    assert apart[:5] == [0.0] * 5
    assert min(apart[5:]) > 0.0
    assert {record.communication.bytes_down for record in personal.history} == {5 * MODEL_BYTES}


@pytest.mark.slow
def test_ifca_parts_copies_of_a_shared_model_and_sends_one_model_before(two_kinds):
    training = FedAvg(rounds=40, shared_rounds=10, clients_per_round=6, batch_size=20, learning_rate=0.3)
    ifca = fit_ifca(two_kinds, 2, linear, training, n_starts=4, start_rounds=5)
    first, second = ({ifca.choices[f"device-{i}"] for i in range(kind, 8, 2)} for kind in (0, 1))
    assert sorted([first, second], key=min) == [{0}, {1}]  # each kind has a model of its own
    sent = [record.communication.bytes_down for record in ifca.history]
    assert sent == [6 * MODEL_BYTES] * 10 + [2 * 6 * MODEL_BYTES] * 30
    assert ifca.communication.bytes_down == sum(sent) + 3 * sum(sent[10:15])  # three starts more


def test_predictions_come_from_the_model_of_each_row_in_order(personal, mixed):
    inputs = mixed["device-3"][0]
    routed = personal.route("device-3", inputs)
    assert set(routed) == {0, 1}
    outputs = personal.predict("device-3", inputs)
    for row, model in enumerate(routed):
        torch.testing.assert_close(outputs[row], personal.model(model)(torch.tensor(inputs[row])))


def test_an_evaluation_adds_up(personal, mixed):
    judged = personal.evaluate(mixed)
    sizes = np.array([len(targets) for _, targets in mixed.values()])
    assert np.average(judged.device_accuracies, weights=sizes) == pytest.approx(judged.accuracy)
    assert np.average(judged.model_accuracies, weights=judged.model_rows) == pytest.approx(judged.accuracy)
    assert np.average(judged.device_losses, weights=sizes) == pytest.approx(judged.loss)
    assert judged.device_variance == pytest.approx(np.var(judged.device_accuracies))


def test_other_features_than_the_inputs_can_be_clustered():
    devices = fleet(8)
    hidden = {name: (np.abs(inputs), targets) for name, (inputs, targets) in devices.items()}
    models = fit_personalized(hidden, 2, linear, SHORT, features=lambda inputs: inputs[:, :1] ** 2)
    assert models.clustering.aggregation.schema.n_features == 1
    with pytest.raises(kfed.FeatureMismatchError, match="features that were clustered"):
        fit_personalized(devices, 2, linear, SHORT).clustering.route("device-0", torch.ones(2, 5))


def test_a_device_that_never_took_part_is_named(two_kinds):
    models = fit_global(two_kinds, linear, FedAvg(rounds=1))
    with pytest.raises(kfed.UnknownDeviceError, match="'stranger' is not one of the 8 devices"):
        models.predict("stranger", two_kinds["device-0"][0])


def test_more_clusters_than_device_centers_is_an_error(two_kinds):
    with pytest.raises(kfed.TooFewCentersError):
        fit_personalized(two_kinds, 9, linear, SHORT)


def test_devices_in_a_list_get_names():
    models = fit_personalized(list(fleet(8).values()), 2, linear, SHORT)
    assert models.device_ids == tuple(f"device-{i}" for i in range(8))
