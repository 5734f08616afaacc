"""A training that was stopped goes on to the same parameters; a checkpoint of another one is refused."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from trainings import SETTINGS, assert_same, perceptron  # noqa: E402

import kfed  # noqa: E402
from kfed._base import files  # noqa: E402
from kfed.federated import (  # noqa: E402
    PowerOfChoice,
    RandomSelection,
    cross_entropy,
    fit_global,
    fit_ifca,
    fit_personalized,
)


# Checkpoints --------------------
@pytest.mark.slow
def test_a_stopped_run_goes_on_to_the_same_parameters(two_kinds, tmp_path):
    class StoppedError(Exception):
        pass

    def stop_in_round_three(round, stack):
        if round == 3:
            raise StoppedError
        return {"round": float(round)}

    path = tmp_path / "run.kfed"
    whole = fit_global(two_kinds, perceptron, SETTINGS, observe=lambda round, stack: {"round": float(round)})
    with pytest.raises(StoppedError):
        fit_global(two_kinds, perceptron, SETTINGS, observe=stop_in_round_three, checkpoint=path)
    seen = []
    resumed = fit_global(
        two_kinds,
        perceptron,
        SETTINGS,
        observe=lambda round, stack: seen.append(round) or {"round": float(round)},
        checkpoint=path,
    )
    assert seen == [3, 4]
    assert_same(whole, resumed)
    assert resumed.history == whole.history
    assert resumed.communication == whole.communication


@pytest.mark.slow
def test_ifca_with_several_starts_goes_on_to_the_same_parameters(two_kinds, tmp_path):
    path = tmp_path / "run.kfed"
    training = replace(SETTINGS, rounds=6)
    whole = fit_ifca(two_kinds, 2, perceptron, training, n_starts=3, start_rounds=2)
    fit_ifca(two_kinds, 2, perceptron, replace(training, rounds=4), n_starts=3, start_rounds=2, checkpoint=path)
    resumed = fit_ifca(two_kinds, 2, perceptron, training, n_starts=3, start_rounds=2, checkpoint=path)
    assert_same(whole, resumed)
    assert resumed.communication == whole.communication
    assert resumed.communication.rounds == 6 + 2 * 2


@pytest.mark.parametrize("n_done", [2, 5])
def test_a_run_stopped_before_or_after_its_shared_rounds_goes_on_to_the_same_parameters(two_kinds, tmp_path, n_done):
    path = tmp_path / "run.kfed"
    training = replace(SETTINGS, rounds=7, shared_rounds=4)

    def stop(round, stack):
        if round == n_done:
            raise KeyboardInterrupt
        return {}

    whole = fit_personalized(two_kinds, 2, perceptron, training)
    with pytest.raises(KeyboardInterrupt):
        fit_personalized(two_kinds, 2, perceptron, training, observe=stop, checkpoint=path)
    resumed = fit_personalized(two_kinds, 2, perceptron, training, checkpoint=path)
    assert_same(whole, resumed)
    assert resumed.history == whole.history


def test_a_checkpoint_of_another_run_is_refused_and_left_alone(two_kinds, tmp_path):
    path = tmp_path / "run.kfed"
    fit_global(two_kinds, perceptron, SETTINGS, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(kfed.InvalidInputError, match="other settings; delete it"):
        fit_global(two_kinds, perceptron, replace(SETTINGS, learning_rate=0.3), checkpoint=path)
    assert path.read_bytes() == before


def swapped(devices):
    return {name: (inputs, 1 - targets) for name, (inputs, targets) in devices.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda call: call | {"devices": swapped(call["devices"])}, "other data; delete it"),
        (lambda call: call | {"features": lambda inputs: -inputs[:, :1] + inputs[:, 1:2]}, "other clusters; delete it"),
        (lambda call: call | {"training": replace(call["training"], loss=other_way)}, "other loss; delete it"),
        (lambda call: call | {"selection": PowerOfChoice(range(1, 9), 5)}, "selection, selection settings; delete it"),
        (lambda call: call | {"selection": RandomSelection(8, seed=5)}, "other selection settings; delete it"),
    ],
    ids=["data", "features", "loss", "selection", "seed of the selection"],
)
def test_a_checkpoint_of_other_data_clusters_loss_or_selection_is_refused_by_name(two_kinds, tmp_path, change, said):
    call = {"devices": two_kinds, "n_clusters": 2, "model_factory": perceptron, "training": SETTINGS}
    call |= {"checkpoint": tmp_path / "run.kfed"}
    fit_personalized(**call)
    with pytest.raises(kfed.InvalidInputError, match=said):
        fit_personalized(**change(call))
    assert len(fit_personalized(**call).history) == SETTINGS.rounds


def other_way(outputs, targets):
    return cross_entropy(outputs, 1 - targets)


def test_a_checkpoint_of_version_1_is_still_read(two_kinds, tmp_path):
    path = tmp_path / "run.kfed"
    whole = fit_global(two_kinds, perceptron, SETTINGS)
    fit_global(two_kinds, perceptron, replace(SETTINGS, rounds=3), checkpoint=path)
    arrays, facts = files.decode(path.read_bytes())
    run = {name: facts["run"][name] for name in ("settings", "plan", "selection", "sizes", "shapes")}
    known = "clients_per_round local_steps batch_size learning_rate final_learning_rate shared_rounds weighting "
    known += "clip_norm n_loss_rows seed"
    run["settings"] = {name: run["settings"][name] for name in known.split()}
    path.write_bytes(files.encode(arrays, facts | {"version": 1, "run": run}))
    assert_same(fit_global(two_kinds, perceptron, SETTINGS, checkpoint=path), whole)
    path.write_bytes(files.encode(arrays, facts | {"version": 1, "run": run | {"plan": "by label"}}))
    with pytest.raises(kfed.InvalidInputError, match="other plan; delete it"):
        fit_global(two_kinds, perceptron, SETTINGS, checkpoint=path)


def test_a_file_that_is_no_checkpoint_is_named(two_kinds, tmp_path):
    path = tmp_path / "run.kfed"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(kfed.MessageError, match=r"run\.kfed: these bytes are not a kfed file"):
        fit_global(two_kinds, perceptron, SETTINGS, checkpoint=path)
