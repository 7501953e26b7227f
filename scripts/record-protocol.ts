/**
 * Records test/protocol/recorded: one conversation of our host with our CLI per trace file.
 * `npx tsx scripts/record-protocol.ts` after `npm run build`. Other programs may replay them:
 * docs/reference/control-protocol.md.
 */
import { writeFile } from 'node:fs/promises';
import type { Frame } from '../src/event/types.ts';
import { openSession } from '../src/host/index.ts';
import { steady } from '../test/protocol/recorded.ts';
import { STORIES } from '../test/protocol/stories.ts';
import { AGENT, Workspace } from '../test/agent-cli/workspace.ts';

// Manifests are requested in the background, in no fixed order, which would change the recordings.
process.env['CLAUDE_AGENT_SDK_DISABLE_MCP_MANIFESTS'] = '1';

for (const { name, script, options, drive } of STORIES) {
  await using ws = await Workspace.open();
  const frames: Frame[] = [];
  const session = await openSession({
    pathToClaudeCodeExecutable: AGENT,
    cwd: ws.cwd,
    env: ws.env,
    model: await ws.script(script),
    ...options(),
    onFrame: (frame) => frames.push(frame),
  });
  await drive(session);
  await session.done;
  await session[Symbol.asyncDispose]();
  const same = steady(ws.root);
  const header = {
    format: 'duolane-trace',
    version: 1,
    createdAt: 0,
    command: 'duolane-agent',
    args: ['--output-format', 'stream-json', '--verbose', '--input-format', 'stream-json'],
  };
  const lines = [header, ...frames.map((frame, at) => ({ ...frame, at, data: same(frame.data) }))];
  await writeFile(
    new URL(`../test/protocol/recorded/${name}.jsonl`, import.meta.url),
    lines.map((line) => `${JSON.stringify(line)}\n`).join(''),
  );
}
