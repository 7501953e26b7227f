import { execFile } from 'node:child_process';
import { mkdtemp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, sep } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const doors = JSON.parse(await readFile(join(import.meta.dirname, 'doors.json'), 'utf8')) as Record<
  string,
  readonly string[]
>;

/** The values that examples use without making them, with their types. */
const GIVEN: Readonly<Record<string, string>> = {
  agent: `import('duolane/event').Agent`,
  bytes: 'Uint8Array',
  connect: `() => Promise<import('duolane/mcp').MessageTransport>`,
  check: `() => AsyncIterable<import('duolane/event').AgentEvent>`,
  child: `import('node:child_process').ChildProcessWithoutNullStreams`,
  client: `import('duolane/a2a').A2AClient`,
  context: `import('duolane/event').AgentContext`,
  description: `import('duolane/a2a').AgentDescription`,
  echo: `import('duolane/event').Agent`,
  events: `import('duolane/event').AgentEvent[]`,
  first: 'AsyncIterable<string>',
  handle: '(item: unknown) => void',
  env: `Readonly<Record<string, string>>`,
  load: `() => AsyncIterable<import('duolane/event').AgentEvent>`,
  log: `import('duolane/task').TaskLog`,
  pipe: `import('node:stream').Writable`,
  request: 'Request',
  response: `import('node:http').ServerResponse`,
  runner: `import('duolane/task').Runner`,
  second: 'AsyncIterable<string>',
  session: `import('duolane').Session`,
  signal: 'AbortSignal',
  source: `import('duolane/mcp').ToolSource`,
  stdin: `import('node:stream').Writable`,
  stream: `import('node:stream').Writable`,
  task: 'string',
  turn: `import('duolane/event').Turn`,
  url: 'string',
};

/** The same for one file, where a name has another type. */
const GIVEN_IN: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'stream/abort.ts': { source: 'AsyncIterable<string>' },
  'stream/channel.ts': { source: `import('node:stream').Readable` },
  'wire/sse.ts': { response: 'Response' },
  'stream/keep-alive.ts': { events: 'AsyncIterable<string>' },
};

/** Names of other packages, with the package. */
const FOREIGN: Readonly<Record<string, string>> = {
  createReadStream: 'node:fs',
  createServer: 'node:http',
  expect: 'vitest',
  z: 'zod',
};

interface Example {
  readonly file: string;
  readonly line: number;
  readonly code: string;
}

/** The `@example` blocks of a source file, without comment marks and fences. */
function examplesOf(file: string, text: string): readonly Example[] {
  return [...text.matchAll(/\/\*\*(?:[^*]|\*(?!\/))*?@example\n((?:[^*]|\*(?!\/))*)\*\//g)].map(
    (match) => ({
      file,
      line: text.slice(0, match.index).split('\n').length,
      code: (match[1] ?? '')
        .replaceAll(/^ *\* ?/gm, '')
        .replaceAll(/^```.*$/gm, '')
        .trimEnd(),
    }),
  );
}

/** The public door that exports a name: the one of the example's own part comes first. */
function doorOf(name: string, file: string): string | undefined {
  const own = `./${file.split('/')[0]}`;
  const found = Object.keys(doors).filter((door) => doors[door]?.includes(name));
  const best = found.find((door) => door === own) ?? found.find((door) => door !== '.') ?? found[0];
  return best && `duolane${best.slice(1)}`;
}

/** A module that compiles if the example is correct. */
function toModule({ file, code }: Example): string {
  const imports = [...code.matchAll(/^import .*;$/gm)].map(([line]) => line);
  const body = code.replaceAll(/^import .*;$/gm, '');
  const stripped = body.replaceAll(/'[^']*'|\/\/.*$/gm, '');
  const own = new Set(
    [...stripped.matchAll(/(?:const|let|class|function\*?)\s+(\w+)/g)].map(([, name]) => name),
  );
  const words = new Set(
    [...stripped.matchAll(/(?<![\w.])([A-Za-z_]\w*)/g)].map(([, name = '']) => name),
  );
  const lines = [...imports];
  for (const name of words) {
    if (own.has(name) || imports.some((line) => new RegExp(`\\b${name}\\b`).test(line))) continue;
    const given = GIVEN_IN[file]?.[name] ?? GIVEN[name];
    const from = FOREIGN[name] ?? doorOf(name, file);
    if (given !== undefined) lines.push(`declare const ${name}: ${given};`);
    else if (from !== undefined) lines.push(`import { ${name} } from '${from}';`);
  }
  return `${lines.join('\n')}\nexport async function example() {\n${body}\n}\n`;
}

const files = (await readdir(join(ROOT, 'src'), { recursive: true })).filter(
  (file) => file.endsWith('.ts') && !file.endsWith('.test.ts'),
);
const sources = await Promise.all(
  files.map(
    async (file) =>
      [file.replaceAll(sep, '/'), await readFile(join(ROOT, 'src', file), 'utf8')] as const,
  ),
);
const examples = sources.flatMap(([file, text]) => examplesOf(file, text));

/** The errors of the compiler, with the place of each example instead of its temporary file. */
async function compile(modules: readonly string[]): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'duolane-examples-'));
  try {
    await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    const paths = Object.keys(doors).map((door) => [
      `duolane${door.slice(1)}`,
      [join(ROOT, 'src', door, 'index.ts')],
    ]);
    const { compilerOptions } = JSON.parse(await readFile(join(ROOT, 'tsconfig.json'), 'utf8')) as {
      compilerOptions: object;
    };
    const options = {
      ...compilerOptions,
      paths: Object.fromEntries(paths),
      verbatimModuleSyntax: false,
      isolatedDeclarations: false,
      declaration: false,
      typeRoots: [join(ROOT, 'node_modules/@types')],
    };
    await writeFile(
      join(folder, 'tsconfig.json'),
      JSON.stringify({ compilerOptions: options, include: ['*.ts'] }),
    );
    await writeFile(join(folder, 'package.json'), '{"type":"module"}');
    await Promise.all(
      modules.map((text, index) => writeFile(join(folder, `example-${index}.ts`), text)),
    );
    const { stdout } = await promisify(execFile)(join(ROOT, 'node_modules/.bin/tsc'), [
      '-p',
      folder,
    ]).catch((error: { stdout: string }) => error);
    return stdout.replaceAll(/(?:\S*\/)?example-(\d+)\.ts/g, (_, index: string) => {
      const example = examples[Number(index)];
      return example ? `src/${example.file}:${example.line} example` : `example ${index}`;
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

test('every @example compiles against the public doors', async () => {
  const marked = sources.map(([, text]) => text.split('@example').length - 1);
  expect(examples).toHaveLength(marked.reduce((sum, count) => sum + count, 0));
  expect(await compile(examples.map(toModule))).toBe('');
});

test('an @example that calls what does not exist is reported', async () => {
  const wrong = { file: 'task/memory/memory-log.ts', line: 1, code: 'memoryLog().noSuchMethod();' };
  expect(await compile([toModule(wrong)])).toContain("Property 'noSuchMethod' does not exist");
});
