#!/bin/sh
# Build the clients in Python and TypeScript from openapi.json, with the tools that `make clients` has
# installed in FOLDER, and put them into FOLDER/dist: build.sh FOLDER. The same description gives
# the same bytes.
set -eu
cd "$(dirname "$0")/../.."
folder=$1
python=$PWD/$folder/python/bin
node=$PWD/$folder/node/node_modules/.bin
export SOURCE_DATE_EPOCH=315532800 # the first time that a zip file can have: 1980-01-01
rm -rf "$folder/dist" "$folder/build"
mkdir -p "$folder/dist" "$folder/build/typescript"

PATH=$python:$PATH openapi-python-client generate --path openapi.json --fail-on-warning \
  --config tools/clients/python/config.yml --output-path "$folder/build/python" >/dev/null
(cd "$folder/build/python" && "$python/python" -c 'import poetry.core.masonry.api as api, sys
api.build_wheel(sys.argv[1])' ../../dist)

cp tools/clients/typescript/index.ts tools/clients/typescript/package.json LICENSE "$folder/build/typescript"
cd "$folder/build/typescript"
ln -s ../../node/node_modules node_modules
"$node/openapi-typescript" ../../../openapi.json --output schema.d.ts >/dev/null
"$node/tsc" --strict --target es2022 --module nodenext --declaration --types node index.ts
version=$("$python/python" -c 'import json; print(json.load(open("../../../openapi.json"))["info"]["version"])')
npm pkg set version="$version"
npm pack --silent --pack-destination ../../dist >/dev/null
