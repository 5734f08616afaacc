"""Install a wheel into an environment that has nothing else, see how large it is, and run a consortium with it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST_MB = 120
NOT_OURS = ("numpy", "scipy", "sklearn", "pip", "setuptools", "numpy.libs", "scipy.libs", "scikit_learn.libs")


def main(wheel: str) -> None:
    """Try a wheel; raises if anything is not as it should be."""
    names = zipfile.ZipFile(wheel).namelist()
    strangers = [name for name in names if not name.startswith(("kfed/", "kfed-"))]
    assert not strangers, f"the wheel holds more than kfed: {strangers[:5]}"
    assert not [name for name in names if "/test" in name or "benchmark" in name], "the wheel holds tests or benchmarks"
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        venv.create(here / "venv", with_pip=True)
        scripts = here / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        subprocess.run(
            [
                scripts / "python",
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                Path(wheel).resolve(),
            ],
            check=True,
        )
        print(f"{size(here / 'venv'):.0f} MB beyond NumPy, SciPy and scikit-learn, of {MOST_MB} MB at most")
        assert size(here / "venv") <= MOST_MB
        consortium(scripts / "kfed", here / "hospitals")


def size(environment: Path) -> float:
    """Megabytes of what was installed, without what every user of scikit-learn has."""
    (packages,) = environment.rglob("site-packages")
    ours = [path for path in packages.iterdir() if not path.name.startswith(NOT_OURS)]
    files = [file for path in ours for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    return sum(file.stat().st_size for file in files) / 1e6


def consortium(kfed: Path, folder: Path) -> None:
    """Run the three commands of a consortium."""
    shutil.copytree(ROOT / "examples" / "hospitals", folder)

    def run(*arguments: str) -> None:
        subprocess.run([kfed, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    sites = ("north", "south", "east")
    for site in sites:
        run("device", f"{site}.csv", "-k", "2", "--id-column", "patient")
    run("aggregate", *(f"{site}.kfed" for site in sites), "-k", "4")
    for site in sites:
        run("label", f"{site}.local", "--clusters", "clusters.kfed", "-o", f"{site}-labels.csv")
        assert (folder / f"{site}-labels.csv").stat().st_size > 100
    print("three hospitals clustered and labelled")


if __name__ == "__main__":
    main(sys.argv[1])
