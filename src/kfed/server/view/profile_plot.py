"""The picture of a profile: how far each cluster is from the mean of all, column by column."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from kfed._base.figures import axes_for, saved

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kfed.server.view.profile import Profile

FULL_COLOR = 2.0
"""Standard deviations from the mean of all at which a color is full."""

MOST_COLUMNS = 30


def plot_profile(profile: Profile, path: str | os.PathLike[str] | None = None, ax: Axes | None = None) -> Axes:
    """Draw differences from the mean of all as a heatmap, the columns that tell most first."""
    differences = profile.differences
    shown = np.argsort(-np.abs(np.nan_to_num(differences)).max(axis=0), kind="stable")[:MOST_COLUMNS]
    ax = axes_for(ax, path, max(5.0, 1.8 + 0.5 * len(shown)), 2.6 + 0.4 * profile.n_clusters)
    image = ax.imshow(differences[:, shown], cmap="RdBu_r", vmin=-FULL_COLOR, vmax=FULL_COLOR, aspect="auto")
    ax.set_xticks(range(len(shown)), [profile.names[column] for column in shown], rotation=40, ha="right")
    ax.set_yticks(range(profile.n_clusters), [f"cluster {c} ({s:.0%})" for c, s in enumerate(profile.shares)])
    ax.figure.colorbar(image, ax=ax, label="standard deviations\nfrom the mean of all")
    return saved(ax, path)
