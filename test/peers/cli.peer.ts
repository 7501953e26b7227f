import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cli } from '../../src/adapters/index.ts';
import { checkLaws, normalizeAgent } from '../../src/event/index.ts';
import type { AgentEvent } from '../../src/event/types.ts';
import { all } from '../a2a/support.ts';
import { only } from '../adapters/adapter.contract.ts';
import { contextFor } from '../contracts/agent.contract.ts';
import { turnOf } from '../support/arbitraries.ts';
import { startModelServer } from '../support/model-server.ts';
import { findRealCli, REAL_CLIS, realCli, type RealCliName } from '../support/real-cli.ts';
import { suite } from '../verifies.ts';

for (const name of Object.keys(REAL_CLIS) as RealCliName[]) {
  const { command, missing } = await findRealCli(name);

  suite(`${name} as an agent`, missing, () => {
    test('text and calls of a sub-agent carry the call that started it', async () => {
      const prompt = 'Find it, please.';
      const subagent = { subagent_type: 'general-purpose', run_in_background: false };
      const task = { description: 'Finds', prompt, ...subagent };
      // The conversation shows which agent makes a model call: the two do not alternate.
      let file = '';
      await using model = await startModelServer(({ body }) => {
        const said = JSON.stringify(body['messages']);
        const tools = JSON.stringify(body['tools']);
        if (!said.includes(prompt)) {
          const tool = tools.includes('"name":"Task"') ? 'Task' : 'Agent';
          return { text: 'I ask. ', tools: [{ id: 'toolu_task', name: tool, input: task }] };
        }
        if (said.includes('toolu_task')) return { text: 'All done.' };
        if (said.includes('toolu_read')) return { text: ['Found ', 'it.'] };
        const input = { file_path: file };
        return { tools: [{ id: 'toolu_read', name: 'Read', input }] };
      });
      await using place = realCli({ command, modelUrl: model.url });
      file = join(place.cwd, 'a.txt');
      await writeFile(file, 'here it lies');
      const agent = cli({
        pathToClaudeCodeExecutable: command,
        cwd: place.cwd,
        env: place.env,
        model: 'scripted',
        settingSources: [],
        allowedTools: ['Task', 'Agent'],
      });
      const events = await all(
        normalizeAgent(agent, { graceMs: 10_000 })(turnOf('m1'), contextFor().ctx),
      );
      expect(checkLaws(events)).toEqual([]);
      const isInner = ({ path }: AgentEvent): boolean => path?.[0] === 'toolu_task';
      const words = (inner: boolean): string =>
        only(events, 'text.delta')
          .filter((event) => isInner(event) === inner)
          .map(({ delta }) => delta)
          .join('');
      expect(events.at(-1)).toMatchObject({ outcome: 'completed' });
      expect(words(false)).toBe('I ask. All done.');
      // The CLI sends the last text of a sub-agent only as the result of its call.
      expect(words(true)).toBe('');
      const calls = only(events, 'tool.completed');
      expect(calls.map((event) => [event.callId, isInner(event)])).toEqual([
        ['toolu_read', true],
        ['toolu_task', false],
      ]);
      expect(JSON.stringify(calls[0]?.output)).toContain('here it lies');
      expect(JSON.stringify(calls[1]?.output)).toContain('Found it.');
    });
  });
}
