"""`kfed export`: the clusters alone, for labelling rows anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rich.markup import escape

from kfed._base.files import write
from kfed.cli._app import app
from kfed.cli._options import Clusters
from kfed.cli._terminal import Force, Json, claim, option, plural, print_json, say
from kfed.errors import InvalidInputError
from kfed.server import Aggregation, ClusterModel
from kfed.wire import load

SKLEARN_SUFFIXES = (".joblib", ".pkl")


@app.command(
    epilog="`kfed export clusters.kfed -o model.kfed`   for `kfed label new.csv --clusters model.kfed`\n\n"
    "`kfed export clusters.kfed -o model.joblib`   a fitted scikit-learn estimator: "
    "joblib.load(...).predict(X), where X is a data frame with the columns of the tables"
)
def export(
    clusters: Clusters,
    output: Annotated[
        Path, option("FILE", "A name ending in .kfed, or in .joblib for scikit-learn.", "-o", "--output")
    ] = Path("model.kfed"),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write only the centers, sizes and columns of the clusters, without the messages of the devices."""
    claim([output], inputs=[clusters], force=force)
    model = ClusterModel.of(load(clusters, Aggregation))
    if output.suffix.lower() in SKLEARN_SUFFIXES:
        payload = _for_sklearn(model)
    elif output.suffix.lower() == ".kfed":
        payload = model.to_bytes()
    else:
        raise InvalidInputError(f"{output}: the name of a model must end in .kfed, or in .joblib for scikit-learn")
    write(output, payload, overwrite=force)
    facts = {
        "n_clusters": model.n_clusters,
        "n_features": model.schema.n_features,
        "output": str(output),
        "bytes": len(payload),
    }
    if as_json:
        print_json(facts)
    else:
        found = f"{plural(model.n_clusters, 'cluster')} of {plural(model.schema.n_features, 'feature')}"
        say(
            f"{found}, and no message of a device",
            f"  [green]wrote[/]  {escape(str(output))}  ({len(payload):,} bytes)",
        )


def _for_sklearn(model: ClusterModel) -> bytes:
    import io

    import joblib

    from kfed.estimator import to_sklearn

    file = io.BytesIO()
    joblib.dump(to_sklearn(model), file)
    return file.getvalue()
