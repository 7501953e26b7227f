import { parseAst } from 'vite';
import type { Node } from '../source.ts';
import { walk } from '../source.ts';

/** A place that breaks a rule, as `file:line: what is wrong`. */
export type Violation = string;

type Rule = (file: string, source: string) => Violation[];

/** The nodes of the file that was parsed last: all rules look at one file after the other. */
let parsed: { readonly source: string; readonly nodes: readonly Node[] } | undefined;

function nodesOf(file: string, source: string): readonly Node[] {
  if (parsed?.source !== source) {
    const tree = parseAst(source, { lang: file.endsWith('x') ? 'tsx' : 'ts' });
    parsed = { source, nodes: [...walk(tree)] };
  }
  return parsed.nodes;
}

/** A rule whose `judge` gets each node of a file once and says what is wrong with it. */
const overNodes =
  (judge: (node: Node, source: string, file: string) => string | undefined): Rule =>
  (file, source) =>
    nodesOf(file, source).flatMap((node) => {
      const reason = judge(node, source, file);
      return reason === undefined ? [] : [`${file}:${lineOf(source, node)}: ${reason}`];
    });

const lineOf = (source: string, node: Node): number =>
  source.slice(0, Number(node['start'])).split('\n').length;

const textOf = (source: string, node: unknown): string => {
  const { start, end } = node as { start: number; end: number };
  return source.slice(start, end);
};

const MEMBERS: ReadonlySet<string> = new Set([
  'MethodDefinition',
  'PropertyDefinition',
  'Property',
]);

/**
 * A dispose may be called twice and at the same time, so it is memoised: by `disposeOnce`, by
 * `??=`, or because it only passes on to one that is, or has nothing to wait for.
 */
export const memoisedDispose: Rule = overNodes((node, source) => {
  const value = disposeOf(node, source);
  if (!value) return undefined;
  const text = textOf(source, value);
  if (value.type === 'TSEmptyBodyFunctionExpression') return undefined;
  if (text.startsWith('disposeOnce(')) return undefined;
  if (value.type === 'Identifier')
    return new RegExp(`const ${text}\\b[^;]*(\\?\\?=|disposeOnce\\()`).test(source)
      ? undefined
      : NOT_MEMOISED;
  const body = value['body'] as Node | undefined;
  const statements = (body?.['body'] ?? [body]) as Node[];
  const passesOn = /^(return |await )*[^;]*\[Symbol\.asyncDispose\]\(\);?$/;
  if (statements.length === 1 && passesOn.test(textOf(source, statements[0]))) return undefined;
  // What stands to the right of `??=` runs once; any other work would run each time.
  const once = new Set([...walk(body)].filter(isMemo).flatMap((memo) => [...walk(memo)]));
  const works = [...walk(body)].some(
    (each) =>
      (each.type === 'AwaitExpression' || each.type === 'CallExpression') && !once.has(each),
  );
  return works && /\bawait\b|\breturn\b|=> /.test(text) ? NOT_MEMOISED : undefined;
});

/**
 * What is made the dispose of something, if the node does that: in a class, an object, or later.
 */
function disposeOf(node: Node, source: string): Node | undefined {
  if (MEMBERS.has(node.type) && node['key'] && node['value'])
    return textOf(source, node['key']) === 'Symbol.asyncDispose'
      ? (node['value'] as Node)
      : undefined;
  if (node.type !== 'AssignmentExpression') return undefined;
  return textOf(source, node['left']).endsWith('[Symbol.asyncDispose]')
    ? (node['right'] as Node)
    : undefined;
}

/** Whether a file makes anything disposable, other than in a type. */
export const definesDispose = (file: string, source: string): boolean =>
  nodesOf(file, source).some((node) => {
    const value = disposeOf(node, source);
    return value !== undefined && value.type !== 'TSEmptyBodyFunctionExpression';
  });

const isMemo = (node: Node): boolean =>
  node.type === 'AssignmentExpression' && node['operator'] === '??=';

const NOT_MEMOISED =
  'asyncDispose is not memoised; write [Symbol.asyncDispose] = disposeOnce(…) of stream/dispose-once';

/** An abort may have come before the listener: `onAbort` looks at the signal first. */
export const abortListeners: Rule = overNodes((node, source, file) => {
  if (file === 'stream/abort.ts') return undefined;
  if (node.type === 'AssignmentExpression')
    return textOf(source, node['left']).endsWith('.onabort') ? LISTENS : undefined;
  if (node.type !== 'CallExpression') return undefined;
  const [first, second] = (node['arguments'] as Node[]).map((each) => textOf(source, each));
  const callee = textOf(source, node['callee']);
  const listens = /\b(add|remove)EventListener\b/.test(callee) && ABORT.test(first ?? '');
  const waits = /\b(once|on)$/.test(callee) && ABORT.test(second ?? '');
  return listens || waits || /\baddAbortListener$/.test(callee) ? LISTENS : undefined;
});

const LISTENS = 'listens for abort itself; use onAbort of stream/abort';
const ABORT = /^['"`]abort['"`]$/;

/** Methods of collections and streams that give no promise, where `void` only drops their value. */
const NO_PROMISE = /\.(add|delete|destroy|end|push|set|write)$/;

/**
 * A rejection without an owner ends the process. The type-aware lint rule `no-floating-promises`
 * checks statements; this one also finds the short form `() => void work()`.
 */
export const ownedPromises: Rule = overNodes((node, source) => {
  if (node.type !== 'UnaryExpression' || node['operator'] !== 'void') return undefined;
  const argument = node['argument'] as Node;
  if (argument.type === 'Identifier' || argument.type === 'MemberExpression')
    return `"void ${textOf(source, argument)}" drops it; await it, or add a catch`;
  if (argument.type !== 'CallExpression' || isCaught(argument)) return undefined;
  if (NO_PROMISE.test(textOf(source, argument['callee']))) return undefined;
  return `"void ${textOf(source, argument).split('\n')[0]}" has no catch; add one that reports the failure`;
});

function isCaught(call: Node): boolean {
  const callee = call['callee'] as Node;
  const name = (callee['property'] as Node | undefined)?.['name'];
  if (name === 'catch' || (name === 'then' && (call['arguments'] as Node[]).length === 2))
    return true;
  // What follows a catch and cannot fail by itself.
  return name === 'finally' && (callee['object'] as Node).type === 'CallExpression'
    ? isCaught(callee['object'] as Node)
    : false;
}

/** What swallows an error says why, so that a reviewer can judge it. */
export const explainedCatches: Rule = overNodes((node, source) => {
  const swallowed =
    node.type === 'CatchClause'
      ? isUnused(node['param'] as Node | null, node['body'] as Node)
      : isSwallowingCall(node, source) || isDroppedSettlement(node);
  if (!swallowed) return undefined;
  return hasComment(source, node) ? undefined : 'swallows an error without a comment that says why';
});

/** `await Promise.allSettled(…)` as a statement: its failures are ignored. */
function isDroppedSettlement(node: Node): boolean {
  if (node.type !== 'ExpressionStatement') return false;
  const expression = node['expression'] as Node;
  const call = (
    expression.type === 'AwaitExpression' ? expression['argument'] : expression
  ) as Node;
  if (call.type !== 'CallExpression') return false;
  const { name } = ((call['callee'] as Node)['property'] ?? {}) as { readonly name?: unknown };
  return name === 'allSettled';
}

function isSwallowingCall(node: Node, source: string): boolean {
  if (node.type !== 'CallExpression') return false;
  const name = ((node['callee'] as Node)['property'] as Node | undefined)?.['name'];
  const [first, second] = node['arguments'] as Node[];
  // The second handler of `then` may make a value of the failure; an empty one drops it.
  if (name === 'then' && second) return isEmptyFunction(second, source);
  const handler = first;
  if (name !== 'catch' || !handler) return false;
  if (isEmptyFunction(handler, source)) return true;
  if (handler.type !== 'ArrowFunctionExpression' && handler.type !== 'FunctionExpression')
    return false;
  const [param = null] = handler['params'] as Node[];
  return isUnused(param, handler['body'] as Node);
}

/** `() => {}`, or the name of one. */
function isEmptyFunction(node: Node, source: string): boolean {
  if (node.type === 'Identifier')
    return new RegExp(
      `(const ${textOf(source, node)}\\b[^;=]*= \\(\\w*\\)[^;=]*=>|function ${textOf(source, node)}\\b[^{]*) *\\{\\s*\\}`,
    ).test(source);
  const body = node['body'] as Node | undefined;
  return body?.type === 'BlockStatement' && (body['body'] as Node[]).length === 0;
}

function isUnused(param: Node | null, body: Node): boolean {
  if (param === null) return true;
  const names = [...walk(param)].filter(isName).map((each) => each['name']);
  const used = new Set([...walk(body)].filter(isName).map((each) => each['name']));
  return !names.some((name) => used.has(name));
}

const isName = ({ type }: Node): boolean => type === 'Identifier';

/** On a line of the node, or alone on the line above the one where its clause begins. */
function hasComment(source: string, node: Node): boolean {
  const { start, end } = node as unknown as { start: number; end: number };
  const callee = node['callee'] as { end: number } | undefined;
  const from = source.lastIndexOf('\n', callee ? callee.end : start) + 1;
  const to = source.indexOf('\n', end);
  const lines = source.slice(from, to === -1 ? undefined : to);
  const above = source.slice(source.lastIndexOf('\n', from - 2) + 1, from).trim();
  return /(^|[\s{(;,])\/[/*]/.test(lines) || /^(\/\/|\*\/|.*\*\/$)/.test(above);
}

/**
 * A count that is taken in the body of a generator is not taken before the first read, and given
 * back only if there was one: a response that no client reads goes round the limit, or leaks.
 */
export const countedOutsideGenerators: Rule = overNodes((node, source) => {
  if (node['generator'] !== true || !node['body']) return undefined;
  for (const inner of walk(node['body'])) {
    const target =
      inner.type === 'UpdateExpression'
        ? inner['argument']
        : inner.type === 'AssignmentExpression' && /^[+-]=$/.test(String(inner['operator']))
          ? inner['left']
          : undefined;
    if (
      target &&
      /^this\.#?(open|active|busy|connections|readers|streams|users|slots|calls|sessions)$/.test(
        textOf(source, target),
      )
    )
      return `counts ${textOf(source, target)} in the body of a generator; count where the iterable is made`;
  }
  return undefined;
});

/**
 * Node 20 may crash if an HTTP/2 session is destroyed, or a stream reset with a code other than
 * CANCEL, while it receives: `http/close-http2` waits until that is over.
 */
export const http2ClosedLater: Rule = overNodes((node, source, file) => {
  if (file === 'http/close-http2.ts' || !source.includes("'node:http2'")) return undefined;
  if (node.type !== 'CallExpression') return undefined;
  const callee = textOf(source, node['callee']);
  if (/session\??\.destroy$/i.test(callee))
    return 'destroys an HTTP/2 session while it may receive; use destroySession of http/close-http2';
  if (!/stream\??\.(close|destroy)$/i.test(callee)) return undefined;
  const [code] = (node['arguments'] as Node[]).map((each) => textOf(source, each));
  return callee.endsWith('close') && /^8$|NGHTTP2_CANCEL$/.test(code ?? '')
    ? undefined
    : 'resets an HTTP/2 stream while it may receive; use resetStream of http/close-http2';
});

export const LIFECYCLE_RULES: Readonly<Record<string, Rule>> = {
  memoisedDispose,
  abortListeners,
  ownedPromises,
  explainedCatches,
  countedOutsideGenerators,
  http2ClosedLater,
};
