import { readFileSync, readdirSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Frame } from '../../src/event/types.ts';
import { openSession } from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { memoryTransport } from '../../src/process/index.ts';
import { checkTrace } from '../../src/trace/check-trace.ts';
import { readTrace } from '../../src/trace/read-trace.ts';
import { JsonlDecoder, InvalidLine } from '../../src/wire/index.ts';
import { RawHost, Workspace } from '../agent-cli/workspace.ts';
import { lane, play, said, steady } from './recorded.ts';
import { STORIES } from './stories.ts';
import { verifies } from '../verifies.ts';

const folder = new URL('recorded/', import.meta.url);
const recordedBytes = (name: string): Buffer => readFileSync(new URL(`${name}.jsonl`, folder));

async function recording(name: string): Promise<readonly Frame[]> {
  const frames: Frame[] = [];
  for await (const item of readTrace(chunked(recordedBytes(name))))
    if (item.kind === 'frame') frames.push(item.frame);
  return frames;
}

async function* chunked(bytes: Buffer): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes;
}

/** The frames of each lane. The order within a lane is the same in every run. */
const lanes = (frames: readonly JsonObject[], root: string): readonly JsonObject[] =>
  [true, false].flatMap((control) => lane(frames, control).map(steady(root)));

/** Collects frames, and waits for the expected number of them. */
class Heard {
  readonly frames: JsonObject[] = [];
  #wake = (): void => {};

  push(frame: JsonObject): void {
    this.frames.push(frame);
    this.#wake();
  }

  readonly atLeast = async (count: number): Promise<void> => {
    while (this.frames.length < count) await new Promise<void>((resolve) => (this.#wake = resolve));
  };
}

function withoutManifests(): void {
  process.env['CLAUDE_AGENT_SDK_DISABLE_MCP_MANIFESTS'] = '1';
  onTestFinished(() => void delete process.env['CLAUDE_AGENT_SDK_DISABLE_MCP_MANIFESTS']);
}

test('every story has a recording, and every recording a story', () => {
  const files = readdirSync(folder).toSorted();
  expect(files).toEqual(STORIES.map(({ name }) => `${name}.jsonl`).toSorted());
});

describe.each(STORIES)('the recording "$name"', ({ name, script, options, drive, code = 0 }) => {
  test('breaks no rule of the protocol', async () => {
    const { kind, findings } = await checkTrace(readTrace(chunked(recordedBytes(name))));
    expect(kind).toBe('frames');
    expect(findings.filter(({ severity }) => severity !== 'info')).toEqual([]);
  });

  verifies('S8', `our host answers the recorded CLI of "${name}" frame by frame`, async () => {
    withoutManifests();
    const frames = await recording(name);
    const { transport, peer } = memoryTransport();
    const heard = new Heard();
    const listening = (async () => {
      const decoder = new JsonlDecoder();
      for await (const chunk of peer.input)
        for (const frame of decoder.decode(chunk))
          if (!(frame instanceof InvalidLine)) heard.push(frame);
    })();
    const session = await openSession({ ...options(), transport: () => transport });
    const played = play(
      frames,
      'in',
      (frame) => void peer.write(`${JSON.stringify(frame)}\n`),
      heard.atLeast,
    ).then(() => listening);
    void played.then(() => peer.exit({ code }));
    await drive(session);
    expect(await session.done).toEqual({ code });
    const out = said(frames, 'out').map(({ data }) => data);
    expect(lanes(heard.frames, '/project')).toEqual(lanes(out, '/project'));
  });

  verifies('S8', `our CLI answers the recorded host of "${name}" frame by frame`, async () => {
    const frames = await recording(name);
    await using ws = await Workspace.open({ CLAUDE_CODE_SDK_READS_SESSION_STATE: '1' });
    const { allowedTools = [], canUseTool } = options();
    await using host = new RawHost(ws, [
      '--model',
      await ws.script(script),
      ...(allowedTools.length > 0 ? [`--allowedTools=${allowedTools.join(',')}`] : []),
      ...(canUseTool ? ['--permission-prompt-tool=stdio'] : []),
    ]);
    const atLeast = async (count: number): Promise<void> => {
      await expect.poll(() => host.seen.length, { timeout: 60_000 }).toBeGreaterThanOrEqual(count);
    };
    await play(frames, 'out', (frame) => host.send(frame), atLeast);
    host.transport.endInput();
    expect((await host.transport.exited).code).toBe(code);
    const spoken = said(frames, 'in').map(({ data }) => data);
    expect(lanes(host.seen, ws.root)).toEqual(lanes(spoken, '/project'));
  });
});
