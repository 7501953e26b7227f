/**
 * Writes docs/reference/cli.md, and the list of rules in docs/reference/trace-format.md, from the
 * code itself. `--check` writes nothing and fails if one of them is not what it would write.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { helpOf } from '../src/cli/command.ts';
import { COMMANDS } from '../src/cli/command-table.ts';
import { type Rule, RULES } from '../src/trace/index.ts';

const CLI = new URL('../docs/reference/cli.md', import.meta.url);
const TRACE = new URL('../docs/reference/trace-format.md', import.meta.url);
const MARKS = ['<!-- rules: made by scripts/generate-cli-docs.ts -->', '<!-- /rules -->'] as const;

/** The expected text of both pages. */
export async function pages(): Promise<ReadonlyMap<URL, string>> {
  return new Map([
    [CLI, await commandPage()],
    [TRACE, tracePage(readFileSync(TRACE, 'utf8'))],
  ]);
}

async function commandPage(): Promise<string> {
  const entries = await Promise.all(
    Object.entries(COMMANDS).map(async ([name, { summary, load }]) => ({
      name,
      summary,
      // The list of samples depends on what is built, so it does not belong into the documentation.
      help: helpOf(name, summary, await load()),
    })),
  );
  return `${[
    '# The command',
    '<!-- made by scripts/generate-cli-docs.ts from the help texts: change those, then run it -->',
    'The output is text, with colours only at a terminal and without `NO_COLOR`; every command that prints data has `--json`.\nResults go to stdout, messages about the command itself to stderr.',
    [
      '| | |',
      '|---|---|',
      ...entries.map(
        ({ name, summary }) => `| [\`duolane ${name}\`](#duolane-${name}) | ${summary} |`,
      ),
    ].join('\n'),
    EXIT_CODES,
    WATCH,
    ...entries.map(({ name, help }) => `## duolane ${name}\n\n\`\`\`text\n${help}\n\`\`\``),
  ].join('\n\n')}\n`;
}

const EXIT_CODES = `## Exit codes

| code | |
|---|---|
| 0 | done; also if the reader of stdout exited (\`\\| head\`), and if \`serve\` was stopped by Ctrl-C |
| 1 | the command or the agent failed, or \`doctor\` found an error |
| 2 | invalid arguments, or a module or file that does not exist |
| 130 | stopped by Ctrl-C; the first closes what the command opened, the second ends it immediately |
| 143 | ended by SIGTERM |
| any | \`wrap\` ends with the exit code or signal of its command |`;

const WATCH = `## Watching another SDK

\`duolane wrap\` reads the pipe between a host and its CLI, so it works with any host that lets you choose the CLI. For the
official agent SDK, either let Node run it in front of a CLI that is a script:

\`\`\`ts
query({
  prompt,
  options: {
    executable: 'node',
    executableArgs: ['node_modules/duolane/dist/cli/duolane.js', 'wrap', '--trace', 'run.jsonl', '--'],
    pathToClaudeCodeExecutable: 'node_modules/duolane/dist/agent-cli/main.js',
  },
});
\`\`\`

or, for a CLI that is an executable, point it at a script of two lines (\`chmod +x\`):

\`\`\`sh
#!/bin/sh
exec npx duolane wrap --trace run.jsonl -- claude "$@"
\`\`\`

Then \`duolane doctor run.jsonl\` lists the problems, and \`duolane replay run.jsonl --speed 10\` plays the run again.`;

function tracePage(text: string): string {
  const [from, to] = MARKS.map((mark) => text.indexOf(mark)) as [number, number];
  if (from === -1 || to < from)
    throw new Error(`docs/reference/trace-format.md lacks ${MARKS.join(' … ')}`);
  const rows = Object.entries<Rule>(RULES).map(
    ([id, { severity, holds, fix }]) => `| \`${id}\` | ${severity} | ${holds} | ${cell(fix)} |`,
  );
  const table = ['| rule | | holds | otherwise |', '|---|---|---|---|', ...rows].join('\n');
  return `${text.slice(0, from)}${MARKS[0]}\n\n${table}\n\n${text.slice(to)}`;
}

const cell = (text: string): string => text.replaceAll('|', '\\|');

if (process.argv[1] === new URL(import.meta.url).pathname) {
  let stale = false;
  for (const [file, text] of await pages()) {
    if (readFileSync(file, { encoding: 'utf8', flag: 'a+' }) === text) continue;
    stale = true;
    if (!process.argv.includes('--check')) writeFileSync(file, text);
    console.log(
      `${file.pathname.split('/').at(-1)} ${process.argv.includes('--check') ? 'is stale' : 'was written'}`,
    );
  }
  if (stale && process.argv.includes('--check')) process.exitCode = 1;
}
