"""What the pictures promise."""

import struct
import sys

import numpy as np
import pytest

import kfed
from kfed._base.figures import new_figure, save_figure
from kfed._base.html import png_of
from kfed.experiments import run_demo
from kfed.experiments.demo import N_CLUSTERS, N_DEVICES
from kfed.insight import cluster_colors, dot_areas, plot_centers
from kfed.wire import Column, Details, FeatureSchema

PNG = b"\x89PNG\r\n\x1a\n"


def aggregation(n_clusters, n_features, n_devices=20, names=None):
    rng = np.random.default_rng(0)
    means = 10 * rng.normal(size=(n_clusters, n_features))
    messages = []
    for device in range(n_devices):
        own = [(device * 3 + i) % n_clusters for i in range(min(3, n_clusters))]
        centers = means[own] + 0.1 * rng.normal(size=(len(own), n_features))
        messages.append(kfed.DeviceMessage(f"${device}$", centers, rng.integers(3, 500, len(own)), feature_names=names))
    return kfed.aggregate(messages, n_clusters)


@pytest.mark.parametrize(("n_clusters", "n_features"), [(1, 1), (1, 2), (3, 1), (10, 3), (30, 12)])
def test_every_shape_of_aggregation_can_be_drawn(tmp_path, n_clusters, n_features):
    plot_centers(aggregation(n_clusters, n_features), tmp_path / "centers.png")
    assert (tmp_path / "centers.png").read_bytes().startswith(PNG)
    assert [path.name for path in tmp_path.iterdir()] == ["centers.png"]


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_the_name_decides_the_format(tmp_path, suffix):
    plot_centers(aggregation(3, 2), tmp_path / f"centers.{suffix}")
    assert suffix in (tmp_path / f"centers.{suffix}").read_bytes()[:300].decode("latin-1").lower()


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(kfed.InvalidInputError, match="must end in"):
        plot_centers(aggregation(3, 2), tmp_path / "centers.docx")
    assert list(tmp_path.iterdir()) == []


def test_all_equal_centers_can_be_drawn(tmp_path):
    messages = [kfed.DeviceMessage(name, np.ones((2, 5)), [4, 4]) for name in "ab"]
    plot_centers(kfed.aggregate(messages, 3), tmp_path / "centers.png")


def test_every_center_is_a_dot_of_its_cluster_s_colour_and_every_cluster_has_its_number():
    result = aggregation(4, 2, names=("age", "pressure in $"))
    ax = plot_centers(result, ax=new_figure(4, 4).add_subplot())
    dots = ax.collections[0]
    assert len(dots.get_offsets()) == len(result.messages.centers)
    drawn = sorted(tuple(place) for place in dots.get_offsets().tolist())
    assert drawn == sorted(tuple(center) for center in result.messages.centers.tolist())
    colors = {tuple(color[:3]) for color in dots.get_facecolors().tolist()}
    assert colors == {tuple(color) for color in cluster_colors(4).tolist()}
    assert [text.get_text() for text in ax.texts] == ["0", "1", "2", "3"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("age", r"pressure in \$")


def with_missing_averages(n_features):
    """Messages of tables whose numbers lie far from 0, with an average that is not told in one center of each."""
    rng = np.random.default_rng(0)
    schema = FeatureSchema.of_columns([Column("admitted", "date"), Column("age"), Column("bmi")][:n_features])
    messages = []
    for device in "abc":
        centers = np.array([20_000.0, 40.0, 25.0])[:n_features] + rng.normal(size=(6, n_features))
        observed = np.full((6, n_features), 9.0)
        centers[0, 0] = observed[0, 0] = 0
        details = Details(observed=observed, squares=(observed > 0) * 5.0)
        messages.append(kfed.DeviceMessage(device, centers, np.full(6, 10), schema=schema, details=details))
    return messages


@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_an_average_that_is_not_told_is_drawn_at_the_mean_of_all(n_features):
    result = kfed.aggregate(with_missing_averages(n_features), 2)
    ax = plot_centers(result, ax=new_figure(4, 4).add_subplot())
    places = ax.collections[0].get_offsets()[:, 0]
    assert len(places) == 18
    assert np.ptp(places) < 8  # one that is drawn at 0 lies thousands of days, or of deviations, away
    if n_features < 3:
        rings = [text.xy[0] for text in ax.texts]
        assert np.abs(np.array([*places, *rings]) - 20_000).max() < 4


@pytest.mark.parametrize(("n_clusters", "names"), [(1, None), (2, ("a", "ward=internal medicine", "b")), (9, None)])
def test_all_words_of_the_picture_of_a_profile_are_inside_it(n_clusters, names, tmp_path):
    figure = aggregation(n_clusters, 3, names=names).profile().plot(tmp_path / "profile.png").figure
    figure.draw_without_rendering()
    width, height = figure.canvas.get_width_height()
    words = [ax.yaxis.label for ax in figure.axes] + [tick for ax in figure.axes for tick in ax.get_xticklabels()]
    boxes = [word.get_window_extent() for word in words if word.get_text()]
    assert len(boxes) == 4
    for box in boxes:
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width
        assert box.y1 <= height


def test_numbers_of_clusters_in_one_place_do_not_cover_each_other():
    messages = [kfed.DeviceMessage("a", [[0.0, 0.0], [1e-9, 0.0], [0.0, 1e-9], [9.0, 9.0]], [5, 5, 5, 5])]
    figure = new_figure(5, 5)
    ax = plot_centers(kfed.aggregate(messages, 4), ax=figure.add_subplot())
    figure.draw_without_rendering()
    boxes = [text.get_bbox_patch().get_window_extent() for text in ax.texts]
    middles = np.array([[(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2] for box in boxes])
    apart = np.linalg.norm(middles[:, None] - middles, axis=2)[np.triu_indices(4, 1)]
    assert apart.min() > 0.8 * max(box.width for box in boxes)


def test_the_area_of_a_dot_grows_with_its_count():
    areas = dot_areas(np.array([1, 50, 100]))
    assert areas[2] == pytest.approx(2 * areas[1])
    assert 0 < areas[0] < areas[1]


@pytest.mark.parametrize("n_clusters", [1, 10, 11, 30])
def test_clusters_have_colours_of_their_own(n_clusters):
    assert len({tuple(color) for color in cluster_colors(n_clusters).tolist()}) == n_clusters


def test_without_matplotlib_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(kfed.MissingExtraError, match=r"pip install 'kfed\[plots\]'"):
        plot_centers(aggregation(2, 2), tmp_path / "centers.png")


@pytest.mark.parametrize("kind", ["a file", "a page"])
def test_a_picture_has_150_pixels_per_inch(kind, tmp_path, full_dpi):
    if kind == "a page":
        picture, (width, height) = png_of(lambda ax: ax.plot([0, 1])), (8.5, 4.4)
    else:
        width, height = 2.0, 1.5
        save_figure(new_figure(width, height), tmp_path / "empty.png")
        picture = (tmp_path / "empty.png").read_bytes()
    assert struct.unpack(">II", picture[16:24]) == (150 * width, 150 * height)


# The demo -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_demo_is_a_function_of_its_seed_and_sends_less_than_the_data(tmp_path):
    one, other = run_demo(3), run_demo(3)
    assert one.qualities == other.qualities
    assert one.aggregation == other.aggregation
    assert len(one.message_bytes) == N_DEVICES
    assert sum(one.message_bytes) < one.raw_bytes / 3
    assert one.aggregation.n_clusters == N_CLUSTERS
    one.plot(tmp_path / "demo.png")
    assert (tmp_path / "demo.png").read_bytes().startswith(PNG)
