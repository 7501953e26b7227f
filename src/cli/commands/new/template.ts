/** The files of a new agent, by name. `root` is the folder of the running package. */
export const template = (name: string, root: string): Readonly<Record<string, string>> => ({
  'package.json': `${JSON.stringify(
    {
      name,
      version: '0.0.0',
      private: true,
      type: 'module',
      scripts: { start: 'duolane serve agent.js', test: 'node --test' },
      dependencies: { duolane: `file:${root}` },
    },
    undefined,
    2,
  )}\n`,
  'agent.js': AGENT,
  'script.json': SCRIPT,
  'agent.test.js': TEST,
  '.gitignore': 'node_modules\n.duolane\n',
  'README.md': readme(name),
});

const AGENT = `// An agent with one tool. The default export is the agent; \`duolane serve agent.js\` puts it on the
// network with a page to watch it, \`duolane chat agent.js\` starts a chat in the terminal.
import { createSdkMcpServer, tool } from 'duolane';
import { cli } from 'duolane/adapters';

const schema = {
  type: 'object',
  properties: { zone: { type: 'string', description: 'such as Asia/Tokyo' } },
  required: ['zone'],
};

export const time = tool(
  'time',
  'Returns the time in a time zone',
  schema,
  ({ zone }) => \`It is \${new Date().toLocaleTimeString('en-GB', { timeZone: zone })} in \${zone}.\`,
  { annotations: { readOnlyHint: true } },
);

export default cli({
  // A script replaces the model, so this runs offline. For a real one, set DUOLANE_MODEL to
  // anthropic:<model> or openai:<model>@<address>.
  model: process.env.DUOLANE_MODEL ?? \`script:\${import.meta.dirname}/script.json\`,
  mcpServers: { clock: createSdkMcpServer({ name: 'clock', tools: [time] }) },
  allowedTools: ['mcp__clock__*'],
  tools: [],
});

export const options = {
  card: { name: 'clock', description: 'Knows what time it is.' },
  form: { examples: ['What time is it in Tokyo?'] },
};
`;

const SCRIPT = `[
  { "when": "^It is", "repeat": true, "text": "{{last}} Anything else?" },
  {
    "repeat": true,
    "text": "Let me look.",
    "tools": [{ "name": "mcp__clock__time", "input": { "zone": "Asia/Tokyo" } }]
  }
]
`;

const TEST = `import assert from 'node:assert/strict';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createRunner, memoryLog } from 'duolane/task';
import clock from './agent.js';

test('the agent calls the tool and returns its result', async () => {
  process.env.CLAUDE_CONFIG_DIR = await mkdtemp(join(tmpdir(), 'clock-')); // where sessions are kept
  await using(memoryLog(), async (log) => {
    await using(createRunner({ log, agents: { clock } }), async (runner) => {
      const turn = { agent: 'clock', task: 't1', context: 'c1', messageId: 'm1' };
      await runner.submit({ ...turn, parts: [{ text: 'What time is it in Tokyo?' }] });
      const entries = [];
      for await (const entry of log.read('t1', 0)) entries.push(entry);
      const called = entries.find(({ type }) => type === 'tool.completed');
      assert.equal(called?.name, 'mcp__clock__time');
      const end = entries.at(-1);
      assert.equal(end.outcome, 'completed');
      assert.match(end.text, /It is \\d\\d:\\d\\d:\\d\\d in Asia\\/Tokyo\\./);
    });
  });
});

/** Closes the resource also after an error; from Node 24 on, use \`await using\` instead. */
async function using(resource, run) {
  try {
    await run(resource);
  } finally {
    await resource[Symbol.asyncDispose]();
  }
}
`;

const readme = (name: string): string => `# ${name}

\`\`\`sh
npm test                     # passes, offline
npx duolane chat agent.js    # chat with it
npx duolane serve agent.js --open
\`\`\`

\`agent.js\` is the agent; \`script.json\` replaces the model until you set a real one.
`;
