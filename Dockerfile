# The operator's image: a static llmscaler on an empty system. docs/release.md tells how it is built and checked.
#
# Where the registries are out of reach, name mirrors of them: the two images, crates.io (the URL of a sparse index), and the server from
# which rustup fetches the standard library of the target. An image that brings its target and compiler needs no such server.
#
#   docker build --build-arg RUST_IMAGE=MIRROR/rust:1.95.0-bookworm --build-arg RUNTIME_IMAGE=MIRROR/distroless-static:nonroot \
#     --build-arg CARGO_REGISTRY_MIRROR=sparse+https://MIRROR/crates.io-index/ .
ARG RUST_IMAGE=rust:1.95.0-bookworm
ARG RUNTIME_IMAGE=gcr.io/distroless/static:nonroot

# Runs on the machine's own architecture and compiles for the other: emulated, the compiler would take an hour.
FROM --platform=${BUILDPLATFORM:-linux/amd64} ${RUST_IMAGE} AS tools
ARG CARGO_REGISTRY_MIRROR
# The dependencies get a layer of their own, which lasts until Cargo.lock changes; cargo-chef makes it. A cache mount would save as much,
# but it is never exported with a build's cache, so that a fresh CI runner would start from nothing; layers work with every builder.
RUN if [ -n "${CARGO_REGISTRY_MIRROR}" ]; then \
      settings="${CARGO_HOME:-${HOME}/.cargo}" \
   && mkdir -p "${settings}" \
   && printf '[source.crates-io]\nreplace-with = "mirror"\n[source.mirror]\nregistry = "%s"\n' "${CARGO_REGISTRY_MIRROR}" \
        >>"${settings}/config.toml"; \
    fi \
 && cargo install --locked --version 0.1.78 cargo-chef
WORKDIR /src

FROM tools AS recipe
COPY . .
RUN cargo chef prepare --recipe-path /recipe.json

FROM tools AS build
# Without BuildKit nobody sets it: then it is the machine's own.
ARG TARGETARCH
ARG RUSTUP_DIST_SERVER
COPY hack/release/static.sh hack/release/
RUN hack/release/static.sh "${TARGETARCH:-$(dpkg --print-architecture)}" prepare
COPY --from=recipe /recipe.json /recipe.json
RUN hack/release/static.sh "${TARGETARCH:-$(dpkg --print-architecture)}" cook /recipe.json
COPY . .
RUN hack/release/static.sh "${TARGETARCH:-$(dpkg --print-architecture)}" image \
 && cp target/*-linux-musl/image/llmscaler /llmscaler

FROM ${RUNTIME_IMAGE}
COPY --from=build /llmscaler /llmscaler
USER 65532:65532
# The arguments of the pod are those of the operator. For another command: --entrypoint /llmscaler.
ENTRYPOINT ["/llmscaler", "operator"]
