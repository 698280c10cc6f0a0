# CPU:  docker build -t jnpl .
# CUDA: docker build -t jnpl-gpu --build-arg BASE=nvidia/cuda:12.6.3-runtime-ubuntu24.04 --build-arg TORCH_INDEX= .
# Run:  docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" jnpl find photos/ -o run
ARG BASE=debian:bookworm-slim
FROM ${BASE}
# An index of PyTorch builds without CUDA; empty for PyPI's, which have it.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/jnpl
# HOME: a place that every user (--user) can write to.
ENV PATH=/opt/jnpl/bin:$PATH PIP_NO_CACHE_DIR=1 HOME=/tmp JNPL_CACHE=/data/.jnpl-cache JNPL_DATA=/data/.jnpl-data
COPY pyproject.toml README.md LICENSE constraints.txt /src/
COPY src /src/src
RUN pip install -c /src/constraints.txt ${TORCH_INDEX:+--extra-index-url $TORCH_INDEX} "/src" && rm -rf /src
WORKDIR /data
ENTRYPOINT ["jnpl"]
CMD ["--help"]
