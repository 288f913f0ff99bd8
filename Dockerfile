# The operator's image: the static binary, helm, and this project's watches.yaml and charts. Nothing else, no shell.
#
#   docker build -t <image> .                   compiles both binaries
#   docker build -t <image> --target ready .    takes them from dist/ and pulls nothing
#
# Without watches.yaml and charts it is what the images of other projects are built on, see `chartwright init`:
#
#   docker build -t <image> --target operator .
#   docker build -t <image> --target base .     takes the binaries from dist/ and pulls nothing
#
# dist/ holds, for the image's platform and statically linked:
#   dist/chartwright, dist/helm    executable
#   dist/root/tmp                  an empty directory: mkdir -p dist/root/tmp && chmod 1777 dist/root/tmp
#
# They are stages before the compilers, not a build argument that picks a stage: some builders work through every stage up
# to the target, others lose their way in a FROM with a variable. Plain syntax throughout, so that docker with and without
# BuildKit, podman and buildah can build it.
#
# Images of a registry are named by digest, that of the list of all platforms: a tag may come to mean another image. The tag beside it is
# for people. `make pin-images` looks the digests up again.

# What all of them share.
FROM scratch AS plain
ENV HOME=/opt/helm \
    PATH=/usr/local/bin
WORKDIR /opt/helm
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
# As in operator-sdk's image: a manifest's args are flags of run, and of one that is given twice the last counts.
ENTRYPOINT ["/usr/local/bin/chartwright", "run", "--watches-file=./watches.yaml"]

# From ready binaries: what others build on.
FROM plain AS base
# /tmp must be there and open to any user, for deployments that mount no volume on it. An empty image cannot run mkdir or
# chmod, and COPY keeps the mode of what is inside a directory, not of the directory itself: hence dist/root around it.
COPY dist/root /
COPY dist/chartwright dist/helm /usr/local/bin/

# From ready binaries: this project's image.
FROM base AS ready
COPY watches.yaml ./
COPY helm-charts ./helm-charts

# The operator. Alpine's Rust links statically.
FROM rust:1.95-alpine@sha256:606fd313a0f49743ee2a7bd49a0914bab7deedb12791f3a846a34a4711db7ed2 AS chartwright
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY src ./src
# Not part of the binary, but cargo wants to see every member of the workspace and every target that Cargo.toml names.
COPY lab/Cargo.toml ./lab/Cargo.toml
COPY lab/src ./lab/src
COPY bench/Cargo.toml ./bench/Cargo.toml
COPY bench/src ./bench/src
COPY fidelity/Cargo.toml ./fidelity/Cargo.toml
COPY fidelity/src ./fidelity/src
COPY tests ./tests
RUN cargo build --release --locked --package chartwright

# Helm, from the version that lab/tools/helm4/go.mod pins. Keep the flags like those in lab/tools.sh.
FROM golang:1.26.5-alpine3.24@sha256:0178a641fbb4858c5f1b48e34bdaabe0350a330a1b1149aabd498d0699ff5fb2 AS helm
WORKDIR /src
COPY lab/tools/helm4 ./
RUN version=$(go list -m -f '{{.Version}}' helm.sh/helm/v4) \
 && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o /out/helm \
    -ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=$version -X helm.sh/helm/v4/internal/version.gitTreeState=clean" \
    helm.sh/helm/v4/cmd/helm \
 && mkdir -p /root-tree/tmp && chmod 1777 /root-tree/tmp

# From compiled binaries: what others build on.
FROM plain AS operator
COPY --from=helm /root-tree /
COPY --from=chartwright /src/target/release/chartwright /usr/local/bin/
COPY --from=helm /out/helm /usr/local/bin/

# From compiled binaries: this project's image.
FROM operator
COPY watches.yaml ./
COPY helm-charts ./helm-charts
