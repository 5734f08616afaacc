# The coordinator as a small image: no compiler, no root, one folder for its store.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN python -m venv /opt/kfed && /opt/kfed/bin/pip install --no-cache-dir --constraint constraints.txt ".[coordinator]"

FROM python:3.13-slim
RUN useradd --uid 10001 --create-home --home-dir /var/lib/kfed kfed
COPY --from=build /opt/kfed /opt/kfed
USER 10001
WORKDIR /var/lib/kfed
ENV PATH=/opt/kfed/bin:$PATH PYTHONUNBUFFERED=1
EXPOSE 8765
VOLUME /var/lib/kfed
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8765/healthz', timeout=2)"]
ENTRYPOINT ["kfed"]
CMD ["--help"]
