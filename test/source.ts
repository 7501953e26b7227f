import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseAst } from 'vite';

const SRC = fileURLToPath(new URL('../src/', import.meta.url));

export interface Import {
  /** The importing file, relative to `src/`. */
  readonly file: string;
  readonly specifier: string;
  /** The imported file, relative to `src/`; not set for packages and Node's own modules. */
  readonly target?: string;
  /**
   * `type` is erased; `static` loads with the file; `lazy` loads when the line runs; `computed` is
   * lazy with a name that is known only at run time.
   */
  readonly kind: 'type' | 'static' | 'lazy' | 'computed';
}

export interface Node {
  readonly type: string;
  readonly [member: string]: unknown;
}

/** The sources that we ship, relative to `src/`, with `/` on every platform. */
export function sourceFiles(): string[] {
  return readdirSync(SRC, { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .toSorted();
}

export function readSource(file: string): string {
  return readFileSync(new URL(`../src/${file}`, import.meta.url), 'utf8');
}

/** Every import of a file: statement, re-export, `import()`, type, `require`. */
export function importsOf(file: string, source: string = readSource(file)): Import[] {
  const found: Import[] = [];
  const add = (specifier: unknown, kind: Import['kind']): void => {
    if (typeof specifier !== 'string') {
      found.push({ file, specifier: 'a computed name', kind: 'computed' });
      return;
    }
    const local = specifier.startsWith('.');
    found.push({
      file,
      specifier,
      kind,
      ...(local && { target: posix.join(posix.dirname(file), specifier) }),
    });
  };
  for (const node of walk(parseAst(source, { lang: 'ts' }) as unknown as Node))
    switch (node.type) {
      case 'ImportDeclaration':
      case 'ExportNamedDeclaration':
      case 'ExportAllDeclaration':
        if (node['source']) add(literal(node['source']), isErased(node) ? 'type' : 'static');
        break;
      case 'ImportExpression':
        add(literal(node['source']), 'lazy');
        break;
      case 'TSImportType':
        add(literal(node['source']), 'type');
        break;
      case 'CallExpression':
        if ((node['callee'] as Node)['name'] === 'require')
          add(literal((node['arguments'] as Node[])[0]), 'lazy');
        break;
      default:
    }
  return found;
}

/** The names, types included, that a module exports; `export *` is followed. */
export function exportsOf(file: string): string[] {
  const names: string[] = [];
  for (const node of (parseAst(readSource(file), { lang: 'ts' }) as unknown as { body: Node[] })
    .body) {
    if (node.type === 'ExportDefaultDeclaration') names.push('default');
    if (node.type === 'ExportAllDeclaration')
      names.push(
        ...(node['exported']
          ? [nameOf(node['exported'])]
          : exportsOf(posix.join(posix.dirname(file), String(literal(node['source']))))),
      );
    if (node.type !== 'ExportNamedDeclaration') continue;
    names.push(...(node['specifiers'] as Node[]).map((specifier) => nameOf(specifier['exported'])));
    const declaration = node['declaration'] as Node | null;
    if (declaration?.['id']) names.push(nameOf(declaration['id']));
    for (const declarator of (declaration?.['declarations'] ?? []) as Node[])
      names.push(nameOf(declarator['id']));
  }
  return [...new Set(names)].toSorted();
}

export function* walk(value: unknown): Generator<Node> {
  if (Array.isArray(value)) for (const item of value) yield* walk(item);
  else if (value !== null && typeof value === 'object') {
    if ('type' in value && typeof value.type === 'string') yield value as Node;
    for (const member of Object.values(value)) yield* walk(member);
  }
}

// `import { type A } from` alone still loads the module (verbatimModuleSyntax), so only the
// keyword on the statement itself counts.
function isErased(node: Node): boolean {
  return node['importKind'] === 'type' || node['exportKind'] === 'type';
}

function literal(node: unknown): unknown {
  return (node as Node | undefined)?.['value'];
}

function nameOf(node: unknown): string {
  const { name, value } = node as { name?: string; value?: string };
  return name ?? value ?? '';
}
