import sys,os,time,mmap,statistics; sys.path.insert(0,"/work/main/tests/judge/sandbox"); sys.path.insert(0,os.getcwd()+"/tests/judge/sandbox")
from bottega.judge.forkserver import *; from bottega.judge.keeper import Keeper
s=ForkServer(environment={"PYTHONPATH": os.getcwd()+"/tests/judge/sandbox"}, device=sys.argv[1]); t=time.time(); s.start(); print("start",time.time()-t, s.sandbox)
ts=[];te=[]
for i in range(20):
    t=time.perf_counter(); c=s.spawn("bottega.judge.sandbox.inmate:nothing"); ts.append(time.perf_counter()-t); c.wait(9); te.append(time.perf_counter()-t)
print("spawn median", statistics.median(ts), "max", max(ts), "whole", statistics.median(te))
r,w=os.pipe(); c=s.spawn("cell_entries:spin_counter", fds=[w]) if False else s.spawn("cell_entries:count", fds=[w])
k=Keeper(c.reins); os.read(r,8)
f=[];th=[]
os.set_blocking(r,False)
for i in range(200):
    t=time.perf_counter(); assert k.freeze(); f.append(time.perf_counter()-t)
    try:
        while os.read(r,1<<16): pass
    except BlockingIOError: pass
    t=time.perf_counter(); k.thaw()
    while True:
        try:
            if os.read(r,8): break
        except BlockingIOError: pass
    th.append(time.perf_counter()-t); time.sleep(0.002)
print("freeze us", statistics.median(f)*1e6, sorted(f)[-10]*1e6, "thaw->progress us (inmate sleeps 500us between)", statistics.median(th)*1e6)
s.close()
