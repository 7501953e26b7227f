// One process of the kill matrix: `worker.ts <agent file>`. It waits for a job on stdin, runs the
// task of the scene on the store of the job, and writes each entry that its reader gets to stdout.
// At one entry it does to itself what the job says.
import { appendFileSync, mkdirSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { InputRequest } from '../../src/ask.ts';
import type { Entry } from '../../src/event/types.ts';
import { createRunner, sqliteLog, type TaskLog } from '../../src/task/index.ts';
import { postgresLog } from '../../src/task/postgres/index.ts';
import { tcpProxy } from '../support/tcp-proxy.ts';
import { childrenOf } from './child-processes.ts';
import type { MatrixAgent } from './matrix-agent.ts';
import type { Job, WorkerMessage } from './play.ts';
import { TURN, toolsOf } from './scene.ts';

const say = (message: WorkerMessage): void => {
  writeSync(1, `${JSON.stringify(message)}\n`);
};

const [file = ''] = process.argv.slice(2);
const { default: matrixAgent } = (await import(file)) as { readonly default: MatrixAgent };
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
say({ ready: true });
const { value: line, done } = await input.next();
if (done) process.exit(0); // the matrix does not need this process

const job = JSON.parse(line) as Job;
// Nothing that another process has left in its home or temporary folder can be found here.
const folders = { HOME: 'home', TMPDIR: 'tmp', WORK: 'work' };
for (const [name, folder] of Object.entries(folders)) {
  mkdirSync(join(job.own, folder), { recursive: true });
  if (name !== 'WORK') process.env[name] = join(job.own, folder);
}

const times = { heartbeatMs: job.leaseMs / 6, leaseMs: job.leaseMs, pollMs: 100 };
const proxy = job.store.port === undefined ? undefined : await tcpProxy(job.store.port);
const open = (): Promise<TaskLog> =>
  job.store.file === undefined
    ? postgresLog({
        connectionString: `postgres://postgres@127.0.0.1:${proxy?.port}/postgres`,
        schema: job.store.schema ?? '',
        answerMs: job.leaseMs,
        ...times,
      })
    : sqliteLog({ file: job.store.file, ...times });
const log = await open();
const { approval = true } = matrixAgent;
const onEffect = (id: string): void => {
  appendFileSync(job.effects, `${id}\n`);
  if (id === job.inCall) process.kill(process.pid, 'SIGKILL');
};
const agent = await matrixAgent.build({
  url: job.modelUrl,
  tools: toolsOf(onEffect, { approval }),
  own: job.own,
  onEffect,
});
const { text } = (await matrixAgent.sample?.()) ?? {};
const turn = text === undefined ? TURN : { ...TURN, parts: [{ text }] };
const runner = createRunner({ log, agents: { a: agent }, suspendAfterMs: 0 });
let isStopping = false;

async function stop(): Promise<void> {
  if (isStopping) return;
  isStopping = true;
  await runner[Symbol.asyncDispose]();
  await log[Symbol.asyncDispose]();
  await proxy?.[Symbol.asyncDispose]();
  process.exit(0);
}

process.on('SIGTERM', () => void stop());

async function suffer(): Promise<void> {
  switch (job.fault) {
    case 'kill':
    case 'stop':
    case 'pause':
    case 'terminate':
      process.kill(process.pid, SIGNALS[job.fault]);
      break;
    case 'cut':
    case 'blink': {
      proxy?.cut();
      // The matrix says when the network is back.
      await input.next();
      proxy?.mend();
      break;
    }
    case 'cli':
      for (const pid of childrenOf(process.pid)) process.kill(pid, 'SIGKILL');
      break;
    case undefined:
  }
}

const SIGNALS = {
  kill: 'SIGKILL',
  stop: 'SIGSTOP',
  pause: 'SIGSTOP',
  terminate: 'SIGTERM',
} as const;

async function onEntry(entry: Entry): Promise<void> {
  say({ entry });
  if (entry.seq === job.at) await suffer();
  if (entry.type === 'input.required') await answer(entry.request);
}

async function answer({ id }: InputRequest): Promise<void> {
  const answers = [{ id, action: 'accept' } as const];
  await runner.submit({ ...TURN, messageId: `answer ${id}`, parts: [], answers });
}

await runner.submit(turn);
// A question that the reader of another process has seen and not answered.
for (const request of (await log.get('t'))?.pending ?? []) await answer(request);
for (let after = job.after, isEnded = false; !isEnded && !isStopping;) {
  try {
    for await (const entry of log.read('t', after)) {
      after = entry.seq;
      await onEntry(entry);
    }
    isEnded = true;
  } catch {
    // The database is away: the reader comes back, as a client does.
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
await stop();
