#!/usr/bin/env bash
# Prints the path of the Python of the version asked for: from the PATH, or from pyenv.
set -u
version=$1
if command -v "python$version" >/dev/null && "python$version" --version >/dev/null 2>&1; then
    command -v "python$version"
    exit 0
fi
for candidate in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python; do
    if [ -x "$candidate" ]; then
        echo "$candidate"
        exit 0
    fi
done
echo "Python $version is not installed: put python$version on the PATH, or install it with pyenv" >&2
exit 1
