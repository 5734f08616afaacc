"""Differential privacy of a device's message: the account, the noise, and that nothing else of the rows leaves."""

import math
import warnings

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant, privacy_loss_distribution
from hypothesis import given
from hypothesis import strategies as st

import kfed
from kfed._base.accounting import composed, delta_of, epsilon_of, mu_of
from kfed.device.private import discrete_gaussian as sampler
from kfed.device.private.discrete_gaussian import discrete_gaussian
from kfed.device.private.lloyd import private_kmeans
from kfed.device.private.noisy_rows import NoisyRows
from kfed.server.center_spread import CenterSpread
from kfed.wire import Details, MessageBatch, Promise
from worlds import few_examples

PRIVACY = kfed.Privacy(epsilon=2.0, radius=4.0)
PLACES = np.array([[-2.0, 0.0], [2.0, 0.0], [0.0, 2.5]])


def blobs(n_each=400, places=PLACES, seed=0):
    rng = np.random.default_rng(seed)
    return np.repeat(places, n_each, axis=0) + 0.3 * rng.normal(size=(n_each * len(places), places.shape[1]))


# The account ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (0.5, 1e-6), (1.0, 1e-8), (2.0, 1e-5), (8.0, 1e-3)])
def test_mu_is_what_an_independent_accountant_finds(epsilon, delta):
    exact = privacy_loss_distribution.from_gaussian_mechanism(
        1 / mu_of(epsilon, delta), value_discretization_interval=1e-3
    )
    assert exact.get_epsilon_for_delta(delta) == pytest.approx(epsilon, rel=2e-3)


def test_releases_compose_as_an_independent_accountant_composes_them():
    mus = [0.1, 0.2, 0.2, 0.35]
    accountant = pld_privacy_accountant.PLDAccountant()
    accountant.compose(dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(1 / mu) for mu in mus]))
    assert epsilon_of(composed(mus), 1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=2e-3)


@few_examples
@given(st.floats(0.001, 50), st.floats(1e-12, 0.5))
def test_epsilon_and_delta_follow_from_mu_and_back(epsilon, delta):
    mu = mu_of(epsilon, delta)
    assert delta_of(mu, epsilon) <= delta
    assert epsilon_of(mu, delta) == pytest.approx(epsilon, rel=1e-4)
    assert delta_of(mu * 1.001, epsilon) > delta


# The noise ------------------------------------------------------------------------------------------------------------


def chi_square(draws, sigma):
    """Pearson's statistic, and its degrees of freedom; values that less than five draws are expected of are one."""
    values = np.arange(-8 * sigma, 8 * sigma + 1)
    shares = np.exp(-(values**2) / (2 * sigma**2))
    expected = shares / shares.sum() * len(draws)
    seen = np.array([(draws == value).sum() for value in values])
    is_rare = expected < 5
    seen, expected = (np.append(each[~is_rare], each[is_rare].sum()) for each in (seen, expected))
    return ((seen - expected) ** 2 / expected).sum(), len(seen) - 1


@pytest.mark.parametrize("sigma_bits", [0, 1, 3])
def test_the_noise_has_the_probabilities_of_a_discrete_gaussian(sigma_bits):
    statistic, freedom = chi_square(discrete_gaussian(50_000, sigma_bits), 2**sigma_bits)
    assert statistic < freedom + 6 * math.sqrt(2 * freedom)


def test_draws_that_double_precision_cannot_decide_have_the_same_probabilities(monkeypatch):
    monkeypatch.setattr(sampler, "DOUBT", 2.0**60)  # everything is in doubt
    statistic, freedom = chi_square(discrete_gaussian(300, 1), 2)
    assert statistic < freedom + 6 * math.sqrt(2 * freedom)


def test_fine_noise_has_its_standard_deviation_and_differs_every_time():
    draws = discrete_gaussian((100, 1000)) / 2.0**sampler.SIGMA_BITS
    assert draws.shape == (100, 1000)
    assert abs(draws.mean()) < 0.02
    assert draws.std() == pytest.approx(1, abs=0.02)
    assert (draws[0] != discrete_gaussian(1000)).any()


# The mechanism --------------------------------------------------------------------------------------------------------


def test_clusters_are_found_through_the_noise():
    local = kfed.cluster_device(blobs(), 3, privacy=PRIVACY, random_state=0)
    distances = np.linalg.norm(local.centers[:, None] - PLACES, axis=2)
    assert sorted(distances.argmin(axis=0)) == [0, 1, 2]
    assert distances.min(axis=0).max() < 0.3
    assert np.abs(local.counts - 400).max() < 100


def test_the_whole_budget_is_spent_and_not_more():
    rows = NoisyRows(blobs(), 4.0, mu=0.5)
    private_kmeans(rows, 3, seed=0)
    with pytest.raises(kfed.InvalidInputError, match="budget"):
        rows.release(PLACES, 0.001, 0.5)


@few_examples
@given(st.integers(0, 2**32), st.floats(0.05, 3.0))
def test_a_row_moves_what_is_released_by_at_most_mu_in_standard_deviations(seed, mu):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(40, 3)) * rng.choice([0.1, 1, 100])
    centers, radii = rng.normal(size=(5, 3)), rng.uniform(0.02, 2, 5)
    for own_radii in (None, radii):
        totals = [_totals(own, mu, centers, own_radii) for own in (points, points[1:], points[rng.permutation(40)])]
        moved = (totals[0] - totals[1]).astype(float)
        assert np.linalg.norm(moved) <= mu * 2.0**sampler.SIGMA_BITS
        assert np.count_nonzero(moved.any(axis=1)) == 1  # of one cluster: no other row changed its label
        assert (totals[0] == totals[2]).all()


def _totals(points, mu, centers, radii):
    """The whole numbers that noise is added to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kfed.device.private.noisy_rows.discrete_gaussian", lambda shape: np.zeros(shape, np.int64))
        released = NoisyRows(points, 2.0, mu).release(centers, mu, 0.3, radii)
    sigma = 2.0**sampler.SIGMA_BITS
    scaled = [released.counts[:, None] / released.count_noise, released.sums / released.sum_noise[:, None]]
    return np.rint(np.concatenate(scaled, axis=1) * sigma)


def test_noise_does_not_come_from_random_state():
    sent = [kfed.cluster_device(blobs(), 3, privacy=PRIVACY, random_state=0).to_message("a") for _ in range(2)]
    assert sent[0] != sent[1]


def test_the_noise_that_a_message_tells_is_the_error_that_its_centers_have():
    errors, told = [], []
    means = blobs().reshape(3, 400, 2).mean(axis=1)
    for _ in range(40):
        local = kfed.cluster_device(blobs(), 3, privacy=PRIVACY)
        nearest = np.linalg.norm(local.centers[:, None] - means, axis=2).argmin(axis=1)
        errors.append(np.sqrt(((local.centers - means[nearest]) ** 2).mean()))
        told.append(np.sqrt((local.private.noise[:, 0] ** 2).mean()))
    assert np.median(errors) == pytest.approx(np.median(told), rel=0.4)


# What leaves ----------------------------------------------------------------------------------------------------------


def test_a_private_message_holds_noisy_centers_and_counts_and_nothing_else_of_the_rows():
    local = kfed.cluster_device(blobs(), 3, privacy=PRIVACY)
    message = kfed.DeviceMessage.from_bytes(local.to_message("site7").to_bytes())
    assert message.sums_of_squares is None
    assert message.spectral_deviation is None
    assert set(message.details.tensors()) == {"noise"}
    assert set(message.details.facts()) == {"promise"}
    assert message.details.promise == PRIVACY.promise
    assert message.details.noise.shape == (3, 2)
    assert local.n_iterations == kfed.cluster_device(blobs(4000), 3, privacy=PRIVACY).n_iterations


def test_the_kept_file_gives_the_same_message_again():
    local = kfed.cluster_device(blobs(), 3, privacy=PRIVACY)
    again = kfed.LocalClustering.from_bytes(local.to_bytes())
    assert again.to_message("site7").to_bytes() == local.to_message("site7").to_bytes()


def test_centers_without_rows_that_noise_could_not_have_made_are_withheld():
    with pytest.warns(kfed.PrivacyWarning, match="cannot support"):
        local = kfed.cluster_device(blobs(5), 3, privacy=kfed.Privacy(epsilon=0.05, radius=4.0))
    message = local.to_message("small")
    assert message.n_local_clusters == np.count_nonzero(~local.withheld) <= 1
    assert len(local.labels) == 15


def test_a_fleet_and_the_estimator_are_private_too():
    devices = {"a": blobs(seed=1)[:800], "b": blobs(seed=2)[400:]}
    for local in kfed.cluster_fleet(devices, 2, privacy=PRIVACY):
        assert local.to_message("x").details.promise == PRIVACY.promise
    model = kfed.KFed(3, 2, privacy=PRIVACY, random_state=0, rule="robust")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kfed.AggregationWarning)
        model.fit(list(devices.values()))
    assert np.linalg.norm(model.cluster_centers_[:, None] - PLACES, axis=2).min(axis=0).max() < 0.4
    assert model.inertia_ == pytest.approx(-model.score(list(devices.values())), rel=0.01)


def test_one_table_alone_can_be_fitted_privately():
    model = kfed.KFed(3, privacy=PRIVACY, random_state=0).fit(blobs())
    assert np.linalg.norm(model.cluster_centers_[:, None] - PLACES, axis=2).min(axis=0).max() < 0.4


# Bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0},
        {"epsilon": math.nan},
        {"epsilon": -1.0},
        {"epsilon": 1e-5},
        {"epsilon": 1000.0},
        {"delta": 1.0},
        {"delta": 0.0},
        {"delta": math.nan},
        {"radius": 0.0},
        {"radius": math.inf},
        {"max_points": 0},
    ],
)
def test_impossible_promises_are_refused(wrong):
    with pytest.raises(kfed.InvalidInputError, match=f"{next(iter(wrong))} must be"):
        kfed.Privacy(**{"epsilon": 1.0, "radius": 1.0, **wrong})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_local_clusters": "auto"}, "must be a number"),
        ({"sample_weight": np.ones(1200)}, "every row counts once"),
        ({"privacy": kfed.Privacy(epsilon=1.0, radius=0.001)}, "below the norm of every row"),
        ({"privacy": kfed.Privacy(epsilon=1.0, delta=0.01, radius=4.0)}, "delta must be less than 1 / 1200"),
        ({"privacy": 1.0}, "must be a kfed.Privacy"),
    ],
)
def test_what_cannot_be_kept_private_is_refused(options, text):
    with pytest.raises(kfed.InvalidInputError, match=text):
        kfed.cluster_device(**{"points": blobs(), "n_local_clusters": 3, "privacy": PRIVACY, **options})


def test_rows_scaled_by_themselves_are_warned_of():
    points = blobs()
    with pytest.warns(kfed.PrivacyWarning, match="every column has mean 0 and spread 1"):
        kfed.cluster_device((points - points.mean(axis=0).round(5)) / points.std(axis=0).round(5), 3, privacy=PRIVACY)


def test_a_radius_that_is_the_longest_row_is_warned_of():
    radius = float(np.linalg.norm(blobs(), axis=1).max())
    with pytest.warns(kfed.PrivacyWarning, match="radius seems to be computed from these rows"):
        kfed.cluster_device(blobs(), 3, privacy=kfed.Privacy(epsilon=2.0, radius=radius))


def test_a_radius_that_clips_many_rows_is_warned_of():
    with pytest.warns(kfed.PrivacyWarning, match="their norm exceeds the radius; agree on a larger one"):
        kfed.cluster_device(blobs(), 3, privacy=kfed.Privacy(epsilon=2.0, radius=1.9))


def test_a_promise_that_does_not_follow_from_its_mu_is_refused():
    with pytest.raises(kfed.InvalidInputError, match="follow from its mu"):
        Promise(1.0, 1e-6, mu=0.3, radius=1.0)


# On the server --------------------------------------------------------------------------------------------------------


def private_message(name, place, noise, count=100, epsilon=1.0):
    privacy = kfed.Privacy(epsilon=epsilon, radius=9.0)
    details = Details(noise=np.array([[noise, 5.0]]), promise=privacy.promise)
    return kfed.DeviceMessage(name, [[place]], [count], details=details)


def test_the_robust_rule_weighs_centers_by_their_noise():
    sent = [private_message("a", 0.0, 0.01), private_message("b", 1.0, 0.1), private_message("c", 0.0, 0.01)]
    noisy = kfed.aggregate(sent, 1, rule="robust").cluster_centers[0, 0]
    alike = [private_message(own.device_id, own.centers[0, 0], 0.01) for own in sent]
    assert noisy < 0.05 < kfed.aggregate(alike, 1, rule="robust").cluster_centers[0, 0]


def test_noise_is_part_of_the_error_of_a_center():
    spread = CenterSpread.of(MessageBatch.of([private_message("a", 0.0, 0.1), private_message("b", 8.0, 0.2)]))
    assert spread.errors == pytest.approx([0.01, 0.04])


def test_the_certificate_says_that_noise_hides_the_spread():
    sent = [private_message("a", 0.0, 0.01), private_message("b", 8.0, 0.01)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kfed.AggregationWarning)
        certificate = kfed.aggregate(sent, 2).certificate()
    assert certificate.is_guaranteed is None
    assert "noise" in certificate.verdict


def test_a_region_of_private_devices_keeps_the_weakest_of_their_promises():
    sent = [private_message("a", 0.0, 0.03, epsilon=0.5), private_message("b", 0.1, 0.04, epsilon=2.0)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kfed.AggregationWarning)
        region = kfed.aggregate(sent, 1).to_message("region")
    assert region.details.promise == kfed.Privacy(epsilon=2.0, radius=9.0).promise
    assert region.details.noise[0] == pytest.approx([0.025, np.sqrt(50)])
    public = kfed.DeviceMessage("c", [[0.0]], [100])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kfed.AggregationWarning)
        assert kfed.aggregate([*sent, public], 1).to_message("region").details.promise is None


def test_a_private_aggregation_is_read_back_and_a_device_can_leave_it():
    sent = [private_message("a", 0.0, 0.01), private_message("b", 8.0, 0.01), private_message("c", 0.1, 0.01)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kfed.AggregationWarning)
        result = kfed.Aggregation.from_bytes(kfed.aggregate(sent, 2, rule="robust").to_bytes())
        left = result.without("c").cluster_centers
        assert left.tolist() == kfed.aggregate(sent[:2], 2, rule="robust").cluster_centers.tolist()
