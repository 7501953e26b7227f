import { parseAst } from 'vite';
import type { Node } from '../source.ts';

/** One change of a file that a test should notice. */
export interface Mutant {
  /** `<file>: <what>`, and a number if the file has several of the same. */
  readonly name: string;
  readonly file: string;
  readonly line: number;
}

export interface Instrumented {
  readonly code: string;
  readonly mutants: readonly Mutant[];
}

const OPERATORS: Readonly<Record<string, readonly string[]>> = {
  '===': ['!=='],
  '!==': ['==='],
  '<': ['<=', '>='],
  '<=': ['<', '>'],
  '>': ['>=', '<='],
  '>=': ['>', '<'],
  '+': ['-'],
  '-': ['+'],
  '*': ['/'],
  '/': ['*'],
  '%': ['*'],
  '&&': ['||'],
  '||': ['&&'],
};

const METHODS: ReadonlyMap<string, string> = new Map([
  ['some', 'every'],
  ['every', 'some'],
  ['startsWith', 'endsWith'],
  ['endsWith', 'startsWith'],
  ['min', 'max'],
  ['max', 'min'],
  ['findLast', 'find'],
  ['indexOf', 'lastIndexOf'],
  ['lastIndexOf', 'indexOf'],
]);

interface Span {
  readonly start: number;
  readonly end: number;
}

/** What stands at a place instead, with the name of the change. */
type Change = readonly [what: string, code: string];

/**
 * Puts every mutant of a file into its code, each behind a question to `mutants.is`, so that the
 * file is loaded once for all of them.
 */
export function instrument(file: string, source: string, first: number): Instrumented {
  const mutants: Mutant[] = [];
  const taken = new Map<string, number>();
  const text = ({ start, end }: Span): string => source.slice(start, end);
  const lineOf = ({ start }: Span): number => source.slice(0, start).split('\n').length;

  const add = (at: Span, what: string): number => {
    const line = lineOf(at);
    const name = `${file}: ${what}`;
    const count = (taken.get(name) ?? 0) + 1;
    taken.set(name, count);
    mutants.push({ name: count === 1 ? name : `${name} #${count}`, file, line });
    return first + mutants.length - 1;
  };

  /** The code of a node with the mutants of it and of what is in it. */
  const render = (node: Node & Span, parent?: Node): string => {
    const inner = renderChildren(node);
    if (isStatementToDrop(node, parent)) {
      const what = `drop ${short(text(node))}`;
      return `if (!globalThis.mutants.is(${add(node, what)})) { ${inner} }`;
    }
    let code = inner;
    for (const [what, changed] of changesOf(node, parent, text))
      code = `(globalThis.mutants.is(${add(node, what)}) ? (${changed}) : (${code}))`;
    return code;
  };

  const renderChildren = (node: Node & Span): string => {
    let code = '';
    let at = node.start;
    for (const child of childrenOf(node)) {
      if (child.start < at) continue; // a shorthand property is two nodes at one place
      code += source.slice(at, child.start) + render(child, node);
      at = child.end;
    }
    return code + source.slice(at, node.end);
  };

  const tree = parseAst(source, { lang: 'ts' }) as unknown as Node & Span;
  const body = renderChildren({ ...tree, start: 0, end: source.length });
  return { code: body, mutants };
}

function childrenOf(node: Node): (Node & Span)[] {
  const found: (Node & Span)[] = [];
  for (const [key, member] of Object.entries(node)) {
    // Types are erased, and a name that is written once must stay one.
    if (/^(typeAnnotation|returnType|typeParameters|typeArguments|superTypeArguments)$/.test(key))
      continue;
    for (const each of Array.isArray(member) ? member : [member])
      if (isNode(each) && !/^TS(?!AsExpression|NonNull|Satisfies)/.test(each.type))
        found.push(each);
  }
  return found.toSorted((one, other) => one.start - other.start);
}

const isNode = (value: unknown): value is Node & Span =>
  typeof value === 'object' && value !== null && 'type' in value && 'start' in value;

const short = (code: string): string => code.replaceAll(/\s+/g, ' ').slice(0, 60);

function isStatementToDrop(node: Node, parent: Node | undefined): boolean {
  if (node.type !== 'ExpressionStatement') return false;
  if (parent?.type === 'Program') return false; // runs when the module is loaded
  const expression = node['expression'] as Node;
  const callee = expression['callee'] as Node | undefined;
  if (callee?.type === 'Super' || expression.type === 'Literal') return false;
  return true;
}

function changesOf(
  node: Node & Span,
  parent: Node | undefined,
  text: (node: Span) => string,
): readonly Change[] {
  const changes: Change[] = [];
  const isTest = parent?.['test'] === node;
  if (isTest) {
    const isLoop = /^(For|While|DoWhile)/.test(parent?.type ?? '');
    if (!isLoop) changes.push([`${short(text(node))} → true`, 'true']);
    if (node.type !== 'Literal') changes.push([`${short(text(node))} → false`, 'false']);
  }
  const side = (name: string): string => text(node[name] as Node & Span);
  switch (node.type) {
    case 'BinaryExpression':
    case 'LogicalExpression': {
      const operator = String(node['operator']);
      if (operator === '??') {
        changes.push([`${short(text(node))} → its left side`, side('left')]);
        changes.push([`${short(text(node))} → its right side`, side('right')]);
        break;
      }
      if (operator === '+' && [node['left'], node['right']].some(isText)) break;
      for (const other of OPERATORS[operator] ?? [])
        changes.push([
          `${short(text(node))}: ${operator} → ${other}`,
          `(${side('left')}) ${other} (${side('right')})`,
        ]);
      break;
    }
    case 'UnaryExpression':
      if (node['operator'] === '!' && !isTest)
        changes.push([`drop ! of ${short(text(node))}`, side('argument')]);
      break;
    case 'Literal':
      if (typeof node['value'] === 'boolean' && !isTest)
        changes.push([
          `${String(node['value'])} → ${String(!node['value'])}`,
          String(!node['value']),
        ]);
      break;
    case 'CallExpression': {
      const callee = node['callee'] as Node & Span;
      const property = callee['property'] as (Node & Span) | undefined;
      const other = METHODS.get(String(property?.['name']));
      if (callee.type === 'MemberExpression' && property && other && !callee['computed'])
        changes.push([
          `${short(text(node))}: ${String(property['name'])} → ${other}`,
          text({ start: node.start, end: property.start }) +
            other +
            text({ start: property.end, end: node.end }),
        ]);
      break;
    }
    default:
  }
  return changes;
}

const isText = (node: unknown): boolean =>
  isNode(node) && (node.type === 'TemplateLiteral' || typeof node['value'] === 'string');
