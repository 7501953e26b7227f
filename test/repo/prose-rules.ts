import { parseAst } from 'vite';
import { type Node, walk } from '../source.ts';

/** A place that breaks a rule, as `file:line: what is wrong`. */
export type Violation = string;

/**
 * Words that make a reader translate first. docs/glossary.md says which word to use instead. Each
 * has to be matched as a complete word; `is no` is allowed in "is no longer".
 */
export const BANNED_WORDS: readonly string[] = [
  'told',
  'tell',
  'tells',
  'hear',
  'hears',
  'heard',
  'ear',
  'ears',
  'deaf',
  'dear',
  'dearest',
  'lest',
  'heed',
  'heeds',
  'road',
  'roads',
  'nobody',
  "nobody's",
  'somebody',
  "somebody's",
  'whoever',
  'whom',
  'lawful',
  'unlawful',
  'seal',
  'sealed',
  'era',
  'eras',
  'mend',
  'mends',
  'mended',
  'patience',
  'goodbye',
  'farewell',
  'is none',
  'is no',
  'in words',
  'as good as',
  'at once',
  'let go',
  'lets go',
  'be had',
  'who waits',
  'next to nothing',
  'in vain',
];

const BANNED = new RegExp(
  `(?<![\\w-])(?:${BANNED_WORDS.map((word) => (word === 'is no' ? 'is no(?! longer)' : word)).join('|')})(?![\\w-])`,
  'gi',
);

/** The banned words in a text, in the order of their places. */
export const bannedIn = (text: string): readonly string[] =>
  // Text in backticks is a name, not prose.
  [...text.replaceAll(/`[^`\n]*`/g, '``').matchAll(BANNED)].map(([word]) => word.toLowerCase());

/** Words of identifiers that say nothing about what they name. */
const BANNED_IDENTIFIER_WORDS: ReadonlySet<string> = new Set(
  'ear hear hears heard told tell road deaf held seal sealed era whole mend leave left said plain'.split(
    ' ',
  ),
);

interface Comment {
  readonly value: string;
  readonly start: number;
}

/** A file that is parsed once, for all rules. */
export interface Parsed {
  readonly file: string;
  readonly source: string;
  readonly nodes: readonly Node[];
  readonly comments: readonly Comment[];
}

export function parseFile(file: string, source: string): Parsed {
  const tree = parseAst(source, { lang: file.endsWith('x') ? 'tsx' : 'ts' });
  const nodes = [...walk(tree)];
  return { file, source, nodes, comments: commentsOf(source, nodes) };
}

/** Comments, found between the strings, templates and regular expressions of a file. */
function commentsOf(source: string, nodes: readonly Node[]): readonly Comment[] {
  const opaque = nodes
    .filter(({ type }) => type === 'Literal' || type === 'TemplateElement' || type === 'JSXText')
    .map((node) => [Number(node['start']), Number(node['end'])] as const)
    .toSorted(([a], [b]) => a - b);
  const found: Comment[] = [];
  let next = 0;
  for (let at = 0; at < source.length; at += 1) {
    while (next < opaque.length && (opaque[next]?.[1] ?? 0) <= at) next += 1;
    const [start, end] = opaque[next] ?? [Infinity, Infinity];
    if (at >= start) {
      at = end - 1;
      continue;
    }
    const two = source.slice(at, at + 2);
    if (two !== '//' && two !== '/*') continue;
    const closing = two === '//' ? source.indexOf('\n', at) : source.indexOf('*/', at + 2) + 2;
    const stop = closing <= 1 && two === '//' ? source.length : closing;
    found.push({ value: source.slice(at, stop), start: at });
    at = stop - 1;
  }
  return found;
}

export const lineAt = (source: string, offset: number): number =>
  source.slice(0, offset).split('\n').length;

/** Comments and string literals with a banned word. Import paths and keys are not prose. */
export function bannedProse({ file, source, nodes, comments }: Parsed): Violation[] {
  const texts = [
    ...comments.map(({ value, start }) => ({
      text: value.replaceAll(/\n\s*(\*|\/\/)/g, ' '),
      start,
    })),
    ...nodes.flatMap((node) => proseOf(node)),
  ];
  return texts.flatMap(({ text, start }) =>
    bannedIn(text).map((word) => `${file}:${lineAt(source, start)}: "${word}"`),
  );
}

function proseOf(node: Node): { readonly text: string; readonly start: number }[] {
  const start = Number(node['start']);
  // A word alone is a value of a protocol; prose has a space.
  if (node.type === 'Literal' && typeof node['value'] === 'string')
    return node['value'].includes(' ') ? [{ text: node['value'], start }] : [];
  if (node.type === 'JSXText') return [{ text: String(node['value']), start }];
  if (node.type === 'TemplateElement') {
    const { cooked } = node['value'] as { cooked?: string };
    return [{ text: cooked ?? '', start }];
  }
  return [];
}

/** Declared names with a banned word in them. */
export function bannedIdentifiers({ file, source, nodes }: Parsed): Violation[] {
  return nodes.flatMap((node) => {
    const name = declaredName(node);
    if (name === undefined) return [];
    const words = name.split(/(?<=[a-z0-9])(?=[A-Z])|_/).map((word) => word.toLowerCase());
    const bad = words.find((word) => BANNED_IDENTIFIER_WORDS.has(word));
    return bad === undefined
      ? []
      : [`${file}:${lineAt(source, Number(node['start']))}: "${name}" has "${bad}"`];
  });
}

const DECLARATIONS: ReadonlySet<string> = new Set([
  'FunctionDeclaration',
  'ClassDeclaration',
  'TSInterfaceDeclaration',
  'TSTypeAliasDeclaration',
  'VariableDeclarator',
]);
const MEMBERS: ReadonlySet<string> = new Set([
  'MethodDefinition',
  'PropertyDefinition',
  'TSPropertySignature',
  'TSMethodSignature',
]);

function declaredName(node: Node): string | undefined {
  const named = DECLARATIONS.has(node.type)
    ? (node['id'] as Node | null)
    : MEMBERS.has(node.type)
      ? (node['key'] as Node | null)
      : undefined;
  return named?.type === 'Identifier' || named?.type === 'PrivateIdentifier'
    ? String(named['name'])
    : undefined;
}

const ERRORS: ReadonlySet<string> = new Set([
  'DuolaneError',
  'A2AError',
  'StoreError',
  'GrpcError',
]);
/** The functions of `src/errors.ts` that create an error from its message. */
const FACTORIES = new Set([
  'invalid',
  'malformed',
  'notFound',
  'tooLarge',
  'unauthorized',
  'unsupported',
]);

/** Texts of errors: no full stop at the end, a lower-case start or a name. */
export function errorTexts({ file, source, nodes }: Parsed): Violation[] {
  return nodes.flatMap((node) => {
    const callee = String((node['callee'] as Node | undefined)?.['name']);
    const given = (node['arguments'] ?? []) as Node[];
    const created = node.type === 'NewExpression' && ERRORS.has(callee);
    const called = node.type === 'CallExpression' && FACTORIES.has(callee);
    const text = created ? textOfMessage(given[1]) : called ? textOfMessage(given[0]) : undefined;
    if (text === undefined) return [];
    const where = `${file}:${lineAt(source, Number(node['start']))}`;
    return [
      ...(/[^.]\.$/.test(text) ? [`${where}: ends with a full stop: ${text}`] : []),
      ...(/^[A-Z][a-z]+ [a-z]/.test(text) && !NAMES.test(text)
        ? [`${where}: starts with a capital letter: ${text}`]
        : []),
    ];
  });
}

/** Names that may begin a message. */
const NAMES =
  /^(Content|Host|Grep|Glob|Read|Write|Edit|Bash|Node|Ctrl|Last|Duolane|Authorization|Retry|Origin|Prometheus)\b/;

function textOfMessage(node: Node | undefined): string | undefined {
  if (node?.type === 'Literal' && typeof node['value'] === 'string') return node['value'];
  if (node?.type !== 'TemplateLiteral') return undefined;
  const quasis = node['quasis'] as { value: { cooked?: string } }[];
  return quasis.map(({ value }) => value.cooked ?? '').join('…');
}

/** Comment lines over 100 columns. A line with an address cannot be broken. */
export function wideComments({ file, source, comments }: Parsed): Violation[] {
  return comments.flatMap(({ value, start }) => {
    const first = lineAt(source, start);
    const lines = source.split('\n');
    return value.split('\n').flatMap((_, index) => {
      const line = lines[first - 1 + index] ?? '';
      return line.length > 100 && !line.includes('://')
        ? [`${file}:${first + index}: ${line.length} columns`]
        : [];
    });
  });
}
