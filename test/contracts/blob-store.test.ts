import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileBlobs } from '../../src/task/index.ts';
import { s3Blobs } from '../../src/task/s3/index.ts';
import { s3Missing, startS3 } from '../support/task/s3.ts';
import { suite } from '../verifies.ts';
import { blobStoreContract } from './blob-store.contract.ts';

blobStoreContract('fileBlobs', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'duolane-'));
  return {
    open: async (rules) => fileBlobs({ directory, ...rules }),
    memoryBytes: 1 << 20,
    async bytes() {
      const names = await readdir(directory, { recursive: true });
      const files = names.filter((name) => name.includes('-') && !name.endsWith('.json'));
      const sizes = await Promise.all(files.map((name) => stat(join(directory, name))));
      return sizes.reduce((sum, { size }) => sum + size, 0);
    },
    close: () => rm(directory, { recursive: true }),
  };
});

suite('s3', s3Missing, () => {
  blobStoreContract('s3Blobs', async () => {
    const server = await startS3();
    const partBytes = 5 << 20;
    return {
      open: (rules) => s3Blobs({ ...server, prefix: '/a/b/', partBytes, ...rules }),
      memoryBytes: partBytes + (1 << 20),
      bytes: () => server.bytes(),
      close: () => server[Symbol.asyncDispose](),
    };
  });
});
