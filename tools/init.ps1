# Writes a registry for this machine: calls flytui init with the arguments, such as --target DIR or SIDECAR.
$own = Join-Path $PSScriptRoot '../.venv/bin/flytui'
if (-not (Test-Path $own)) { $own = 'flytui' }
& $own init @args
exit $LASTEXITCODE
