"""What a notebook shows of a value: escaped HTML that says what it is, and data frames."""

import numpy as np
import pandas as pd

import kfed
from kfed.server import Optimality
from kfed.site import cluster_file
from kfed.wire import Column, Details, FeatureSchema


def test_every_result_has_a_view_in_notebooks(world, result):
    shown = {
        "Aggregation": (result, "12 centers of 6 devices in 4 clusters"),
        "DeviceMessage": (world.messages()[0], "&#x27;device-000&#x27;: 2 centers of 5 features"),
        "Certificate": (result.certificate(), "clusters, k"),
        "KChoice": (kfed.choose_n_clusters(world.messages()), "4 clusters"),
        "KComparison": (kfed.compare_k(world.messages(), [2, 4], n_resamplings=2), "Calinski-Harabasz index"),
        "Profile": (result.profile(), "what sets it apart"),
        "ClusterModel": (kfed.ClusterModel.of(result), "4 clusters of 5 features; no message of a device is in it"),
        "Optimality": (Optimality(30.0, 20.0, 2), "at most 1.5 times the best possible one"),
    }
    for name, (value, said) in shown.items():
        page = value._repr_html_()
        assert page.startswith(f"<div><p><b>{name}</b></p>"), name
        assert said in page, name


def test_a_message_shows_dates_as_dates_and_says_where_nothing_is_told():
    schema = FeatureSchema.of_columns([Column("admitted", "date"), Column("age")])
    details = Details(observed=np.array([[5.0, 5.0], [5.0, 0.0]]), squares=np.array([[1.0, 1.0], [1.0, 0.0]]))
    sent = kfed.DeviceMessage("a", [[20_000.0, 40.5], [20_031.2, 0.0]], [6, 7], schema=schema, details=details)
    page = sent._repr_html_()
    assert "2024-10-04" in page
    assert "2024-11-04" in page
    assert "40.5" in page
    assert page.count(">not told<") == 1
    assert ">0<" not in page
    assert "too few rows behind a center have a value there" in page
    full = kfed.DeviceMessage("a", [[1.0]], [5])
    assert "not told" not in full._repr_html_()


def test_names_of_devices_and_columns_do_not_become_html():
    sent = [kfed.DeviceMessage("<script>", [[0.0], [9.0]], [5, 5], feature_names=["<b>x"])]
    for value in (sent[0], kfed.aggregate(sent, 2), kfed.aggregate(sent, 2).profile()):
        assert "<script>" not in value._repr_html_()
        assert "<b>x" not in value._repr_html_()


def test_centers_and_comparisons_are_data_frames(world, result):
    frame = result.profile().centers_frame()
    np.testing.assert_allclose(frame.drop(columns="(rows)"), result.profile().means)
    assert frame["(rows)"].sum() == sum(map(len, world.points))
    compared = kfed.compare_k(world.messages(), [2, 4], n_resamplings=2).to_frame()
    assert compared.index.tolist() == [2, 4]
    assert compared.loc[4, "costs"] < compared.loc[2, "costs"]


def test_dates_of_centers_are_dates():
    days = pd.date_range("2026-01-01", periods=40)
    frame = pd.DataFrame({"x": np.sin(np.arange(40)), "day": days.strftime("%Y-%m-%d")})
    profile = kfed.aggregate([cluster_file(frame, 1, "a").to_message()], 1).profile()
    in_csv = [record["mean"] for record in profile.rows() if record["column"] == "day"]
    assert profile.centers_frame()["day"].tolist() == in_csv
    assert in_csv[0].startswith("2026-01-")


def test_an_aggregation_and_a_comparison_can_be_drawn(world, result, tmp_path):
    result.plot(tmp_path / "centers.png")
    kfed.compare_k(world.messages(), [2, 4], n_resamplings=2).plot(tmp_path / "k.svg")
    assert (tmp_path / "centers.png").stat().st_size > 1_000
    assert "svg" in (tmp_path / "k.svg").read_text()
