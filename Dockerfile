# One image for the controller, the git server and workers: `docker build -t REGISTRY/arena:0.1.0 .`
#
# Both stages begin with one base, named by version. Pin it by digest where you build (`docker buildx imagetools inspect python:3.11.14-slim-trixie`);
# none stands here because nobody has seen it: this file was linted, not built.
FROM python:3.11.14-slim-trixie AS build
WORKDIR /src
COPY requirements.lock ./
# Every package, checked by its hash; of these, only what the program itself needs goes on.
RUN python -m pip wheel --quiet --no-cache-dir --require-hashes --requirement requirements.lock --wheel-dir /wheels \
    && python -m pip install --quiet --no-cache-dir --no-index --find-links /wheels "hatchling==1.*" \
    && python -m venv /opt/arena
COPY pyproject.toml README.md ./
COPY foundation foundation
COPY gitops gitops
COPY engine engine
COPY reconcile reconcile
COPY hooks hooks
COPY arena arena
RUN python -m pip wheel --quiet --no-cache-dir --no-index --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/arena/bin/python -m pip install --quiet --no-cache-dir --no-index --find-links /wheels arena-reconciler \
    && /opt/arena/bin/python -m pip uninstall --quiet --yes pip

FROM python:3.11.14-slim-trixie
# git serves and fetches repositories, bubblewrap confines programs of bundles; their versions are the distribution's, which mends them.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap git \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/arena /opt/arena
ENV PATH=/opt/arena/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["arena"]
