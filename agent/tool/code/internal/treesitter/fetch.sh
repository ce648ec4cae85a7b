#!/bin/sh
# Fetches the files of wasm/ from npm, at the versions that are named here, and checks that they are those of
# wasm/SHA256SUMS. For a new version, change it here and in wasm/README.md, and write the new sums on purpose.
# Run it by `go generate ./agent/tool/code/internal/treesitter`, or `make grammars`. It needs npm.
set -eu
cd "$(dirname "$0")/wasm"
here=$(pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# take PACKAGE VERSION FILE... takes files of a package, and its licence.
take() {
	package=$1
	archive=$(cd "$work" && npm pack --silent "$package@$2")
	mkdir "$work/$package"
	tar -xzf "$work/$archive" -C "$work/$package" --strip-components=1
	shift 2
	for file; do
		cp "$work/$package/$file" "$work/$file"
	done
	cp "$work/$package/LICENSE" "$here/LICENSE.$package"
}

take web-tree-sitter 0.27.2 web-tree-sitter.wasm
take tree-sitter-python 0.25.0 tree-sitter-python.wasm
take tree-sitter-java 0.23.5 tree-sitter-java.wasm
take tree-sitter-typescript 0.23.2 tree-sitter-typescript.wasm tree-sitter-tsx.wasm

(cd "$work" && sha256sum --check --strict "$here/SHA256SUMS")
for file in "$work"/*.wasm; do
	gzip -9 -n <"$file" >"$here/$(basename "$file").gz"
done
