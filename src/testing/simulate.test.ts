import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { Agent } from '../event/types.ts';
import { createRegistry } from '../mcp/registry/registry.ts';
import { tool } from '../mcp/registry/tool.ts';
import type { ToolSource } from '../mcp/types.ts';
import { sleep } from '../stream/abort.ts';
import { readTrace } from '../trace/read-trace.ts';
import { simulate } from './simulate.ts';

/** Reserves, asks, sleeps and pays, with one step for each effect. */
const careful = (paid: string[]): Agent =>
  async function* (turn, context) {
    const room = await context.step('reserve', async ({ signal }) => {
      await sleep(300, signal);
      return 'room 7';
    });
    yield { type: 'text.delta', id: 't', delta: `${room}. ` };
    const answer = await context.ask({ id: `${turn.messageId}/pay`, kind: 'approval' });
    await context.sleep('night', 60_000);
    await context.step('pay', async ({ key, signal }) => {
      await sleep(200, signal);
      if (!paid.includes(key)) paid.push(key);
    });
    yield { type: 'text.delta', id: 't', delta: answer.action };
  };

const resumable = (agent: Agent): Agent => Object.assign(agent, { resumable: true });

describe('simulate, of an agent', () => {
  test('runs the agent with every fault, the same way for the same seeds', async () => {
    const paid: string[] = [];
    const options = {
      schedules: 60,
      reset: () => void paid.splice(0),
      laws: {
        'a room is paid once': () => (paid.length > 1 ? `${paid.length} times` : undefined),
      },
    };
    const report = await simulate(resumable(careful(paid)), options);
    expect(report.schedules).toBe(60);
    expect(report.simulatedMs).toBeGreaterThan(60 * 60_000);
    for (const fault of ['crash', 'drain', 'stop', 'cut', 'cancel', 'read'])
      expect(report.faults[fault], fault).toBeGreaterThan(0);
    expect(await simulate(resumable(careful(paid)), options)).toEqual(report);
  });

  test('ends with the reason of its signal, aborted before or during it', async () => {
    const reason = new Error('enough');
    const agent = resumable(careful([]));
    await expect(simulate(agent, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const controller = new AbortController();
    let schedules = 0;
    const reset = (): void => {
      if (++schedules === 4) controller.abort(reason);
    };
    await expect(simulate(agent, { signal: controller.signal, reset })).rejects.toBe(reason);
    expect(schedules).toBe(4);
  });

  test('restores the clocks of the process', async () => {
    const clocks = (): readonly unknown[] => [Date, setTimeout, setInterval, crypto, fetch];
    const before = clocks();
    await simulate(resumable(careful([])), { schedules: 1 });
    expect(clocks()).toEqual(before);
    expect(new Date().getFullYear()).toBeGreaterThan(2000);
  });

  test('finds an effect outside a step, shrinks the schedule, and writes a recording', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'duolane-simulate-'));
    const file = join(folder, 'failed.jsonl');
    let charges = 0;
    const careless: Agent = async function* (_, context) {
      charges++;
      await sleep(100, context.signal);
      await context.step('mail', () => 1);
      yield { type: 'text.delta', id: 't', delta: 'done' };
    };
    const failed = simulate(resumable(careless), {
      file,
      reset: () => (charges = 0),
      faults: ['crash'],
      laws: {
        'a card is charged once': () => (charges > 1 ? `charged ${charges} times` : undefined),
      },
    });
    await expect(failed).rejects.toMatchObject({ code: 'invalid' });
    const message = await failed.then(String, (error: unknown) => (error as Error).message);
    expect(message).toMatch(/^law "a card is charged once" broken by seed \d+: charged 2 times/);
    expect(message.match(/"do":"crash"/g)).toHaveLength(1);
    expect(message).toContain(`duolane replay ${file} --open`);
    const kinds: string[] = [];
    for await (const item of readTrace(Readable.from([await readFile(file)])))
      kinds.push(item.kind === 'entry' ? item.entry.type : item.kind);
    expect(kinds[0]).toBe('turn.submitted');
    expect(kinds.filter((kind) => kind === 'run.started').length).toBeGreaterThan(1);
    await rm(folder, { recursive: true });
  });

  test('finds an agent that takes another path after a crash', async () => {
    let calls = 0;
    const forgetful: Agent = async function* (_, context) {
      const call = ++calls;
      await context.step('one', ({ signal }) => sleep(50, signal));
      yield { type: 'text.delta', id: 't', delta: `call ${call}` };
    };
    await expect(
      simulate(resumable(forgetful), { reset: () => (calls = 0), faults: ['crash', 'drain'] }),
    ).rejects.toThrow(/^law "a run is the same with and without faults" broken by seed/);
  });

  test('finds an agent that ignores its signal', async () => {
    const unresponsive: Agent = async function* () {
      await sleep(60_000);
      yield { type: 'text.delta', id: 't', delta: 'done' };
    };
    await expect(simulate(resumable(unresponsive), { faults: ['cancel'] })).rejects.toThrow(
      /law "an agent ends when its signal aborts"/,
    );
  });

  test('refuses an agent that fails without faults, one that never ends, and unknown faults', async () => {
    const broken: Agent = async function* () {
      throw new Error('broken');
    };
    await expect(simulate(broken)).rejects.toThrow('without faults the run ends as failed');
    const stuck: Agent = async function* () {
      await new Promise(() => {});
    };
    await expect(simulate(stuck)).rejects.toThrow('law "every task ends" broken without faults');
    await expect(simulate(stuck, { faults: ['fire' as never] })).rejects.toThrow(
      'unknown fault "fire": expected one of crash',
    );
    await expect(simulate(stuck, { seed: 0 })).rejects.toThrow('invalid seed "0"');
  });
});

/** A tool that takes a second, and one that is fast. */
const tools = (wait: (signal: AbortSignal) => Promise<void>): ToolSource =>
  createRegistry({
    name: 'shop',
    tools: [
      tool('order', 'Orders', {}, async (_, context) => {
        await context.progress(1, 2);
        await wait(context.signal);
        return 'ordered';
      }),
      tool('look', 'Looks', {}, () => 'a chair'),
    ],
  });

const calls = [{ name: 'order' }, { name: 'look' }];

describe('simulate, of tools', () => {
  test('calls the tools with every fault, the same way for the same seeds', async () => {
    const source = tools((signal) => sleep(1000, signal));
    const report = await simulate(source, { calls, schedules: 60 });
    expect(report.schedules).toBe(60);
    for (const fault of ['abort', 'cut', 'reader ends'])
      expect(report.faults[fault], fault).toBeGreaterThan(0);
    expect(await simulate(source, { calls, schedules: 60 })).toEqual(report);
  });

  test('finds a tool that keeps a timer after its call was aborted, and writes a trace', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'duolane-simulate-'));
    const file = join(folder, 'failed.jsonl');
    const source = tools(async (signal) => {
      const timer = setInterval(() => {}, 60_000);
      await sleep(1000, signal);
      clearInterval(timer);
    });
    await expect(simulate(source, { calls, file })).rejects.toThrow(
      /^law "a tool leaves no timer" broken by seed \d+: interval of/,
    );
    const kinds = new Set<string>();
    for await (const { kind } of readTrace(Readable.from([await readFile(file)]))) kinds.add(kind);
    expect([...kinds]).toEqual(['frame']);
    await rm(folder, { recursive: true });
  });

  test('finds a tool that mixes up parallel calls', async () => {
    let busy = false;
    const source = tools(async (signal) => {
      if (busy) throw new Error('busy');
      busy = true;
      await sleep(1000, signal).finally(() => (busy = false));
    });
    await expect(simulate(source, { calls, faults: ['parallel'] })).rejects.toThrow(
      /law "a result is the same with and without faults".*"order": true, not false/,
    );
  });

  test('refuses to run without calls', async () => {
    await expect(
      simulate(
        tools(() => Promise.resolve()),
        { calls: [] },
      ),
    ).rejects.toThrow('invalid calls: expected at least one call');
  });
});
