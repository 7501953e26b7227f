import { describe, expect, test } from 'vitest';
import { LIFECYCLE_RULES } from './lifecycle-rules.ts';
import { readSource, sourceFiles } from '../source.ts';

const written = sourceFiles().filter((file) => !file.includes('/gen/'));
const found = written.flatMap((file) => {
  const source = readSource(file);
  return Object.entries(LIFECYCLE_RULES).flatMap(([name, rule]) =>
    rule(file, source).map((violation) => ({ name, violation })),
  );
});

describe('every file of src keeps the lifecycle rules', () => {
  test.each(Object.keys(LIFECYCLE_RULES))('%s', (rule) => {
    expect(found.filter(({ name }) => name === rule).map(({ violation }) => violation)).toEqual([]);
  });
});

const BAD: readonly (readonly [keyof typeof LIFECYCLE_RULES, string])[] = [
  ['memoisedDispose', 'class A { async [Symbol.asyncDispose]() { await this.a(); this.b(); } }'],
  ['memoisedDispose', 'const a = { [Symbol.asyncDispose]: () => close() };'],
  ['memoisedDispose', 'const close = () => end(); const a = { [Symbol.asyncDispose]: close };'],
  ['memoisedDispose', 'class A { [Symbol.asyncDispose]() { return this.#close(); } }'],
  ['memoisedDispose', 'a[Symbol.asyncDispose] = async () => { await close(); };'],
  [
    'memoisedDispose',
    'class A { async [Symbol.asyncDispose]() { this.#at ??= now(); await this.#close(); } }',
  ],
  ['abortListeners', `signal.addEventListener('abort', stop)`],
  ['abortListeners', 'signal.addEventListener(`abort`, stop)'],
  ['abortListeners', `signal.onabort = stop;`],
  ['abortListeners', `addAbortListener(signal, stop);`],
  ['abortListeners', `const aborts = on(signal, 'abort');`],
  ['abortListeners', `signal?.removeEventListener('abort', stop)`],
  ['abortListeners', `await once(signal, 'abort')`],
  ['ownedPromises', 'void this.#close(id);'],
  ['ownedPromises', 'setInterval(() => void this.beat(), 10);'],
  ['ownedPromises', 'void work().finally(ended);'],
  ['ownedPromises', 'const p = work(); void p;'],
  ['ownedPromises', 'void this.#working;'],
  ['explainedCatches', 'try { a(); } catch {}'],
  ['explainedCatches', 'try { a(); } catch (error) { b(); }'],
  ['explainedCatches', 'a().catch(() => {});'],
  ['explainedCatches', 'a().catch(() => undefined);'],
  ['explainedCatches', 'a().then(b, () => {});'],
  ['explainedCatches', 'const nothing = () => {}; a().catch(nothing);'],
  ['explainedCatches', 'function nothing(): void {} a().catch(nothing);'],
  ['explainedCatches', 'await Promise.allSettled([a(), b()]);'],
  [
    'countedOutsideGenerators',
    'class A { #open = 0; async *read() { this.#open += 1; try { yield 1; } finally { this.#open -= 1; } } }',
  ],
  ['http2ClosedLater', `import {} from 'node:http2'; this.#session.destroy();`],
  ['http2ClosedLater', `import {} from 'node:http2'; stream.session?.destroy(error);`],
  ['http2ClosedLater', `import {} from 'node:http2'; stream.close();`],
  ['http2ClosedLater', `import {} from 'node:http2'; this.#stream.close(2);`],
];

const GOOD: readonly (readonly [keyof typeof LIFECYCLE_RULES, string])[] = [
  ['memoisedDispose', 'class A { [Symbol.asyncDispose] = disposeOnce(() => this.#dispose()); }'],
  [
    'memoisedDispose',
    'class A { [Symbol.asyncDispose]() { return (this.#d ??= this.#close()); } }',
  ],
  ['memoisedDispose', 'const a = { [Symbol.asyncDispose]: () => b[Symbol.asyncDispose]() };'],
  ['memoisedDispose', 'const a = { async [Symbol.asyncDispose]() {} };'],
  ['memoisedDispose', 'a[Symbol.asyncDispose] = disposeOnce(close);'],
  [
    'memoisedDispose',
    'class A { [Symbol.asyncDispose]() { this.#d ??= this.#close(); return this.#d; } }',
  ],
  ['memoisedDispose', 'interface A { [Symbol.asyncDispose](): Promise<void>; }'],
  ['abortListeners', `onAbort(signal, stop); socket.addEventListener('close', stop);`],
  ['ownedPromises', 'void work().catch(report); void work().then(a, b); void set.delete(1);'],
  ['explainedCatches', 'try { a(); } catch (error) { report(error); }'],
  ['explainedCatches', 'a().then(() => true, () => false);'],
  ['explainedCatches', 'const all = await Promise.allSettled([a(), b()]);'],
  ['explainedCatches', 'try { a(); } catch {\n  // the caller looks again\n}'],
  ['explainedCatches', 'a().catch(() => {}); // the caller looks again'],
  ['explainedCatches', '// the caller looks again\na().catch(() => {});'],
  [
    'countedOutsideGenerators',
    'class A { #open = 0; read() { this.#open += 1; return this.#items(); } }',
  ],
  ['http2ClosedLater', `import {} from 'node:http2'; destroySession(session); stream.close(8);`],
  ['http2ClosedLater', 'this.session.destroy();'],
];

test.each(BAD)('%s refuses: %s', (name, source) => {
  expect(LIFECYCLE_RULES[name]?.('host/x.ts', source).length).toBeGreaterThan(0);
});

test.each(GOOD)('%s allows: %s', (name, source) => {
  expect(LIFECYCLE_RULES[name]?.('host/x.ts', source)).toEqual([]);
});
