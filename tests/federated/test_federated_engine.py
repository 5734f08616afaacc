"""The batched engine gives what a plain loop gives, from any checkpoint, and says what is wrong."""

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from federated_worlds import fleet  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from trainings import SETTINGS, assert_same, linear, parameters, perceptron  # noqa: E402

import kfed  # noqa: E402
from kfed.federated import (  # noqa: E402
    FedAvg,
    Fleet,
    KFedPowerOfChoice,
    PowerOfChoice,
    RandomSelection,
    Stack,
    _speed,
    cross_entropy,
    fit_global,
    fit_ifca,
    fit_personalized,
)
from kfed.federated._local import LocalSteps, Share, train_locally  # noqa: E402
from kfed.federated._stack import average  # noqa: E402


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.last = torch.nn.LSTM(1, 4, batch_first=True), torch.nn.Linear(4, 2)

    def forward(self, inputs):
        return self.last(self.lstm(inputs[:, :, None])[0][:, -1])


@settings(max_examples=settings.default.max_examples // 5)
@given(
    st.integers(1, 6),
    st.integers(1, 40),
    st.sampled_from([None, 0.05]),
    st.sampled_from(["points", "devices"]),
    st.integers(0, 100),
)
def test_batched_equals_the_plain_loop(local_steps, batch_size, clip_norm, weighting, seed):
    training = FedAvg(3, 4, local_steps, batch_size, 0.3, weighting=weighting, clip_norm=clip_norm, seed=seed)
    devices = fleet(6, seed, n_rows=lambda i: 1 + 9 * i)
    batched = fit_global(devices, perceptron, training)
    plain = fit_global(devices, perceptron, replace(training, batched=False))
    assert_same(batched, plain, tolerance=1e-4)
    losses = [[record.loss for record in models.history] for models in (batched, plain)]
    np.testing.assert_allclose(*losses, rtol=1e-4)


def normed():
    return torch.nn.Sequential(
        torch.nn.Linear(3, 8),
        torch.nn.BatchNorm1d(8, track_running_stats=False),
        torch.nn.ReLU(),
        torch.nn.Linear(8, 2),
    )


@pytest.mark.slow
def test_batched_equals_the_plain_loop_where_rows_of_a_batch_share_statistics():
    devices = fleet(6, n_rows=lambda i: 3 + 9 * i)
    batched, plain = (fit_global(devices, normed, replace(SETTINGS, batched=batched)) for batched in (True, False))
    assert_same(batched, plain, tolerance=1e-4)


def test_batched_equals_the_plain_loop_with_several_models_a_device(mixed):
    batched = fit_personalized(mixed, 2, perceptron, SETTINGS, n_local_clusters=2)
    plain = fit_personalized(mixed, 2, perceptron, replace(SETTINGS, batched=False), n_local_clusters=2)
    assert_same(batched, plain, tolerance=1e-4)


def test_one_round_is_the_weighted_mean_of_a_textbook_loop(two_kinds):
    """Written with nothing of the engine but the first parameters: all rows in a batch leave nothing to draw."""
    training = FedAvg(rounds=1, local_steps=3, batch_size=10_000, learning_rate=0.1)
    mean = dict.fromkeys(dict(perceptron().named_parameters()), 0.0)
    n_all = sum(len(targets) for _, targets in two_kinds.values())
    for inputs, targets in two_kinds.values():
        model = Stack.of(perceptron, 1, seed=0).module(0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            outputs = model(torch.tensor(inputs))
            torch.nn.functional.cross_entropy(outputs, torch.tensor(targets)).backward()
            optimizer.step()
        for name, values in model.named_parameters():
            mean[name] = mean[name] + values.detach() * len(targets) / n_all
    for name, values in parameters(fit_global(two_kinds, perceptron, training)).items():
        torch.testing.assert_close(values[0], mean[name], rtol=1e-5, atol=1e-6)


def textbook(devices, rounds, optimizer, server=None, proximal=0.0, steps=3):
    """FedAvg on all rows of all devices, by hand."""
    parameters = {n: v[0].clone() for n, v in Stack.of(perceptron, 1, seed=0).parameters.items()}
    server = server and server(list(parameters.values()))
    n_all = sum(len(targets) for _, targets in devices.values())
    for _ in range(rounds):
        mean = {name: torch.zeros_like(values) for name, values in parameters.items()}
        for inputs, targets in devices.values():
            model = perceptron()
            model.load_state_dict(parameters)
            local = optimizer(model.parameters())
            for _ in range(steps):
                local.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(torch.tensor(inputs)), torch.tensor(targets))
                near = sum((values - parameters[name]).square().sum() for name, values in model.named_parameters())
                (loss + proximal / 2 * near).backward()
                local.step()
            for name, values in model.named_parameters():
                mean[name] += values.detach() * len(targets) / n_all
        for name, values in parameters.items():
            values.grad = values - mean[name]
            if server is None:
                values.copy_(mean[name])
        if server is not None:
            server.step()
    return parameters


ADAM, MOMENTUM = partial(torch.optim.Adam, lr=0.05), partial(torch.optim.SGD, lr=0.1, momentum=0.9)


@pytest.mark.slow
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize(
    ("seam", "by_hand"),
    [
        ({"optimizer": torch.optim.Adam, "learning_rate": 0.05}, {"optimizer": ADAM}),
        ({"optimizer": partial(torch.optim.SGD, momentum=0.9)}, {"optimizer": MOMENTUM}),
        ({"proximal": 2.0}, {"proximal": 2.0}),
        ({"server_optimizer": partial(torch.optim.Adam, lr=0.02)}, {"server": partial(torch.optim.Adam, lr=0.02)}),
        ({"server_optimizer": partial(torch.optim.SGD, lr=0.7)}, {"server": partial(torch.optim.SGD, lr=0.7)}),
    ],
    ids=["Adam", "momentum", "proximal", "server Adam", "server rate"],
)
def test_optimizers_and_the_proximal_term_give_what_a_loop_by_hand_gives(two_kinds, seam, by_hand, batched):
    training = FedAvg(4, local_steps=3, batch_size=10_000, batched=batched, **({"learning_rate": 0.1} | seam))
    expected = textbook(two_kinds, 4, **({"optimizer": partial(torch.optim.SGD, lr=0.1)} | by_hand))
    for name, values in parameters(fit_global(two_kinds, perceptron, training)).items():
        torch.testing.assert_close(values[0], expected[name], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_server_optimizer_goes_on_from_a_checkpoint_and_leaves_models_alone_that_nobody_trained(two_kinds, tmp_path):
    path = tmp_path / "run.kfed"
    training = replace(SETTINGS, clients_per_round=1, rounds=8, server_optimizer=partial(torch.optim.Adam, lr=0.1))
    whole = fit_personalized(two_kinds, 2, perceptron, training)
    fit_personalized(two_kinds, 2, perceptron, replace(training, rounds=5), checkpoint=path)
    assert_same(fit_personalized(two_kinds, 2, perceptron, training, checkpoint=path), whole)
    with pytest.raises(kfed.InvalidInputError, match="other settings; delete it"):
        fit_personalized(two_kinds, 2, perceptron, replace(training, server_optimizer=torch.optim.SGD), checkpoint=path)
    seen = []
    fit_personalized(
        two_kinds,
        2,
        perceptron,
        training,
        observe=lambda round, stack: seen.append(stack.parameters["0.weight"].clone()) and {},
    )
    for record, before, after in zip(whole.history[1:], seen, seen[1:], strict=False):
        idle = 1 - record.models[0]
        assert torch.equal(before[idle], after[idle])


class Unknown(torch.optim.SGD):
    """An optimizer that nobody has looked at."""


def test_an_optimizer_that_may_mix_numbers_trains_device_by_device(two_kinds):
    training = replace(SETTINGS, optimizer=Unknown, batched="auto")
    assert_same(
        fit_global(two_kinds, perceptron, training), fit_global(two_kinds, perceptron, replace(SETTINGS, batched=False))
    )
    with pytest.raises(kfed.InvalidInputError, match="use batched=False"):
        fit_global(two_kinds, perceptron, replace(training, batched=True))


def test_the_fastest_way_is_taken_and_kept():
    slow_batch = {(False, 1): 1.0, (True, 1): 2.0, (False, 4): 0.5, (True, 4): 0.5}
    for times, expected in (
        (slow_batch, (False, 4)),
        (slow_batch | {(True, 1): 0.3}, (True, 1)),
        (slow_batch | {(False, 4): 4.6}, (False, 1)),  # threads that fight with other work
        (slow_batch | {(True, 1): 0.95, (False, 4): 0.95}, (False, 1)),  # too little gain
    ):
        assert pretended(times) == expected


def pretended(times):
    """The way that is taken where steps take these times."""
    now, threads = [0.0], [4]

    def step(batched):
        now[0] += times[batched, threads[0]]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_speed.time, "perf_counter", lambda: now[0])
        patch.setattr(torch, "get_num_threads", lambda: threads[0])
        patch.setattr(torch, "set_num_threads", lambda number: threads.__setitem__(0, number))
        return tuple(_speed.fastest(object(), "auto", None, step, can_batch=True))


@pytest.mark.slow
def test_a_model_that_cannot_be_batched_is_trained_all_the_same_by_default(two_kinds):
    models = fit_global(two_kinds, Recurrent, replace(SETTINGS, batched="auto"))
    plain = fit_global(two_kinds, Recurrent, replace(SETTINGS, batched=False))
    assert_same(models, plain, tolerance=1e-6)  # the sums of an LSTM depend on where its memory lies, by the last bit


@pytest.mark.slow
def test_any_dataset_is_a_device(two_kinds):
    class Rows(torch.utils.data.Dataset):
        def __init__(self, pair):
            self.pair = pair

        def __len__(self):
            return len(self.pair[1])

        def __getitem__(self, row):
            return self.pair[0][row], int(self.pair[1][row])

    plain = fit_global(two_kinds, perceptron, SETTINGS)
    tensors = {n: torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y)) for n, (x, y) in two_kinds.items()}
    for devices in (tensors, {name: Rows(pair) for name, pair in two_kinds.items()}):
        assert_same(fit_global(devices, perceptron, SETTINGS), plain)
        assert plain.evaluate(devices).accuracy == plain.evaluate(two_kinds).accuracy
    with pytest.raises(kfed.InvalidInputError, match=r"'a' must give pairs"):
        fit_global({"a": torch.utils.data.TensorDataset(torch.ones(3, 3))}, perceptron)


@pytest.mark.slow
def test_a_look_at_each_round_may_end_the_training(two_kinds, tmp_path):
    path, seen = tmp_path / "run.kfed", []

    def on_round(round, models):
        seen.append(models.evaluate(two_kinds).accuracy)
        return {"accuracy": seen[-1], "stop": round == 2}

    for fit in (
        fit_global,
        lambda devices, factory, training, **options: fit_ifca(devices, 2, factory, training, **options),
        lambda devices, factory, training, **options: fit_personalized(devices, 2, factory, training, **options),
    ):
        seen.clear()
        models = fit(two_kinds, perceptron, SETTINGS, on_round=on_round, observe=lambda round, stack: {"seen": 1.0})
        assert [record.observed for record in models.history] == [{"seen": 1.0, "accuracy": a} for a in seen]
        assert len(models.history) == 3
    stopped = fit_global(two_kinds, perceptron, SETTINGS, on_round=lambda round, models: round == 1, checkpoint=path)
    assert len(stopped.history) == 2
    assert len(fit_global(two_kinds, perceptron, SETTINGS, checkpoint=path).history) == 2  # it stays stopped


def test_the_same_seed_gives_the_same_parameters_and_another_does_not(two_kinds):
    one, two = (fit_global(two_kinds, perceptron, SETTINGS) for _ in range(2))
    assert_same(one, two)
    other = fit_global(two_kinds, perceptron, replace(SETTINGS, seed=1))
    assert not torch.equal(parameters(one)["0.weight"], parameters(other)["0.weight"])


def test_dropout_is_random_within_a_run_and_the_same_in_the_next(two_kinds):
    def dropping():
        return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2))

    before = torch.get_rng_state()
    one, two = (fit_global(two_kinds, dropping, SETTINGS) for _ in range(2))
    assert_same(one, two)
    assert torch.equal(before, torch.get_rng_state())
    outputs = [one.predict("device-0", two_kinds["device-0"][0]) for _ in range(2)]
    assert torch.equal(*outputs)


@pytest.mark.parametrize("batched", [True, False])
def test_a_device_trains_the_same_whoever_else_is_there(two_kinds, batched):
    data, stack = Fleet.of(two_kinds), Stack.of(perceptron, 1, seed=0)
    shares = [Share(device, 0, data.rows(device), batch_size=16) for device in range(data.n_devices)]
    steps = LocalSteps(4, 0.2, None, cross_entropy, batched, seed=0)
    together = train_locally(stack, data, shares, steps, round=3)
    alone = train_locally(stack, data, shares[5:6], steps, round=3)
    for name, values in alone.parameters.items():
        torch.testing.assert_close(values[0], together.parameters[name][5])


@pytest.mark.slow
def test_devices_that_are_drawn_by_size_are_averaged_evenly(two_kinds):
    sizes = [len(targets) for _, targets in two_kinds.values()]

    def fit(selection, weighting):
        return fit_global(two_kinds, perceptron, replace(SETTINGS, weighting=weighting), selection=selection)

    for selection in (PowerOfChoice(sizes, 6), KFedPowerOfChoice(sizes, [0, 1] * 4, 6), RandomSelection(8, sizes)):
        assert_same(fit(selection, "auto"), fit(selection, "devices"))
    assert_same(fit(RandomSelection(8), "auto"), fit(RandomSelection(8), "points"))
    assert_same(fit(None, "auto"), fit(None, "points"))


def test_a_loss_that_is_not_a_number_names_device_and_round_and_keeps_the_last_good_state(two_kinds, tmp_path):
    path = tmp_path / "run.kfed"
    inputs, targets = two_kinds["device-3"]
    two_kinds["device-3"] = inputs * np.float32(1e25), targets
    training = FedAvg(rounds=20, clients_per_round=1, learning_rate=0.2)
    with pytest.raises(kfed.DivergedError, match="'device-3'") as caught:
        fit_global(two_kinds, linear, training, checkpoint=path)
    first_bad = int(str(caught.value).split("round ")[1].split()[0])
    assert first_bad > 0
    kept = fit_global(two_kinds, linear, replace(training, rounds=first_bad), checkpoint=path)
    assert len(kept.history) == first_bad
    assert all(torch.isfinite(values).all() for values in parameters(kept).values())


def test_a_model_without_devices_in_a_round_stays_as_it_is(two_kinds):
    first = Stack.of(perceptron, 2, seed=0).parameters
    one_kind = {name: data for i, (name, data) in enumerate(two_kinds.items()) if i % 2 == 0}
    training = FedAvg(rounds=1, clients_per_round=1, local_steps=2)
    models = fit_personalized({**one_kind, "device-1": two_kinds["device-1"]}, 2, perceptron, training)
    trained = models.history[0].models
    assert len(trained) == 1
    idle = 1 - trained[0]
    for name, values in parameters(models).items():
        assert torch.equal(values[idle], first[name][idle])
        assert not torch.equal(values[trained[0]], first[name][trained[0]])


@given(st.permutations(range(5)))
@settings(max_examples=settings.default.max_examples // 5)
def test_the_mean_does_not_depend_on_the_order_of_devices(order):
    rng = np.random.default_rng(0)
    stack = Stack.of(lambda: torch.nn.Linear(2, 1), 3, seed=0)
    trained = {n: torch.tensor(rng.normal(size=(5, *v.shape[1:])), dtype=v.dtype) for n, v in stack.parameters.items()}
    models, weights, order = np.array([0, 2, 0, 2, 2]), np.array([1.0, 2.0, 3.0, 4.0, 5.0]), list(order)
    one = average(stack, trained, models, weights)
    two = average(stack, {n: v[order] for n, v in trained.items()}, models[order], weights[order])
    for name in stack.parameters:
        torch.testing.assert_close(one.parameters[name], two.parameters[name])
        assert torch.equal(one.parameters[name][1], stack.parameters[name][1])


def test_frozen_parameters_are_not_trained_and_not_sent(two_kinds):
    def partly_frozen():
        model = perceptron()
        model[0].requires_grad_(False)
        return model

    models = fit_global(two_kinds, partly_frozen, SETTINGS)
    assert set(parameters(models)) == {"2.weight", "2.bias"}
    assert models.communication.bytes_up == 5 * 5 * (8 * 2 + 2) * 4


def test_a_recurrent_model_trains_device_by_device(two_kinds):
    models = fit_global(two_kinds, Recurrent, replace(SETTINGS, batched=False))
    assert np.isfinite([record.loss for record in models.history]).all()


def binary_loss(outputs, targets):
    targets = targets.float().view(outputs.shape)
    return torch.nn.functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none").view(len(targets))


def binary_loss_of_chances(outputs, targets):
    return torch.nn.functional.binary_cross_entropy(outputs[:, 0], targets.float(), reduction="none")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("last", "loss"),
    [
        ((), binary_loss),
        ((torch.nn.Flatten(0),), binary_loss),
        ((torch.nn.Sigmoid(),), binary_loss_of_chances),
    ],
    ids=["a logit in a column", "a logit", "a chance"],
)
def test_one_output_for_two_classes_is_judged_as_two_outputs_are(last, loss):
    devices = fleet(4, kinds_of=lambda i: [0])
    training = FedAvg(rounds=20, batched=False, loss=loss)
    one = fit_global(devices, lambda: torch.nn.Sequential(torch.nn.Linear(3, 1), *last), training).evaluate(devices)
    two = fit_global(devices, linear, replace(training, loss=cross_entropy)).evaluate(devices)
    assert one.accuracy == pytest.approx(two.accuracy, abs=0.03)
    assert one.accuracy > 0.95


def test_counts_with_one_output_have_no_accuracy():
    devices = [(np.ones((4, 2)), [0, 1, 2, 3])]
    training = FedAvg(rounds=1, loss=lambda outputs, targets: (outputs[:, 0] - targets) ** 2)
    assert np.isnan(fit_global(devices, lambda: torch.nn.Linear(2, 1), training).evaluate(devices).accuracy)


@pytest.mark.slow
def test_models_survive_pickling(two_kinds):
    for models in (
        fit_global(two_kinds, perceptron, SETTINGS),
        fit_ifca(two_kinds, 2, perceptron, SETTINGS),
        fit_personalized(two_kinds, 2, perceptron, SETTINGS),
    ):
        again = pickle.loads(pickle.dumps(models))
        assert again.history == models.history
        inputs = two_kinds["device-3"][0]
        torch.testing.assert_close(again.predict("device-3", inputs), models.predict("device-3", inputs))


def test_other_losses_than_classes_can_be_trained():
    rng = np.random.default_rng(0)
    devices = [(x, x @ [1.0, -2.0] + 1) for x in rng.normal(size=(4, 50, 2))]

    def squared_error(outputs, targets):
        return (outputs[:, 0] - targets) ** 2

    models = fit_global(devices, lambda: torch.nn.Linear(2, 1), FedAvg(rounds=20, loss=squared_error))
    judged = models.evaluate(devices)
    assert judged.loss < 1e-3
    assert np.isnan(judged.accuracy)
