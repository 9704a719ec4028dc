# syntax=docker/dockerfile:1
# One image with both programs (`gateway`, `allocator`), and one with the simulator (`--target wecom-sim`).
# docker-compose.yml shows them at work.
ARG RUST=1.95
ARG DEBIAN=bookworm

FROM rust:${RUST}-${DEBIAN} AS build
WORKDIR /src
COPY . .
# The caches make a second build short; nothing depends on what is in them.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release --package gateway --package allocator --package wecom-sim \
    && install -D --target-directory /out target/release/gateway target/release/allocator target/release/wecom-sim

FROM debian:${DEBIAN}-slim AS base
# ca-certificates: whom the allocator trusts when it calls WeCom.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --user-group --uid 10001 --no-create-home --shell /usr/sbin/nologin paidan
# `livez 8001` for health checks, without an HTTP client in the image.
COPY --chmod=0755 <<'SCRIPT' /usr/local/bin/livez
#!/bin/bash
# livez PORT: true when http://127.0.0.1:PORT/livez answers 200.
set -euo pipefail
exec 3<>"/dev/tcp/127.0.0.1/$1"
printf 'GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
IFS= read -r -t 2 status <&3
[[ $status == "HTTP/1.1 200"* ]]
SCRIPT
USER 10001:10001
STOPSIGNAL SIGTERM

FROM base AS wecom-sim
COPY --from=build /out/wecom-sim /usr/local/bin/
ENV WECOM_SIM_LISTEN=0.0.0.0:9000
EXPOSE 9000
CMD ["wecom-sim"]

FROM base AS paidan
COPY --from=build /out/gateway /out/allocator /usr/local/bin/
# Callbacks, their admin port; REST, its admin port. The admin ports are for health checks and metrics inside only.
EXPOSE 8000 8001 8080 8081 8090
CMD ["gateway"]
