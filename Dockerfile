# The one image of Carafe: controller, node plugin, mount pods and the command line. Built for the platform that buildx names:
#   docker buildx build --platform linux/amd64,linux/arm64 -t carafe .
# Each platform compiles for itself: the cryptography needs a C compiler of the target, which is native here and costs no cross set-up.
FROM rust:1.95-bookworm AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends protobuf-compiler libprotobuf-dev cmake \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/source/target,id=target-$TARGETPLATFORM \
    cargo build --release --locked -p carafe-cli && cp target/release/carafe /carafe && strip /carafe

# The program mounts by itself and needs glibc and certificates, no fuse tools. A shell is there for `kubectl exec`.
FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* /usr/share/doc /usr/share/man
COPY --from=build /carafe /usr/bin/carafe
# The node plugin asks for root; everything else runs as this.
USER 65532:65532
ENTRYPOINT ["/usr/bin/carafe"]
