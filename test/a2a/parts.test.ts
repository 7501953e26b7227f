import { expect, test } from 'vitest';
import { connectA2A, type A2ATask } from '../../src/a2a/index.ts';
import type { Agent, Part } from '../../src/event/types.ts';
import { serve } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/index.ts';
import { WAYS } from './support.ts';

// The protobuf of 0.3 has no place for it.
const ways = WAYS.filter(({ version, binding }) => version === '1.0' || binding !== 'GRPC');

for (const way of ways)
  test(`metadata of a part is kept in both directions (${way.version} ${way.binding})`, async () => {
    let given: readonly Part[] = [];
    const echo: Agent = async function* ({ parts }) {
      given = parts;
      yield { type: 'artifact', artifactId: 'a', name: 'echo', parts };
      yield { type: 'artifact', artifactId: 'a', append: true, parts };
    };
    await using served = await serve(echo, {
      log: memoryLog(),
      page: false,
      card: { inputModes: ['*/*'] },
      grpc: {},
    });
    await using client = await connectA2A(served.url, way);
    const parts = [
      { text: 'hello', metadata: { kind: 'greeting' } },
      { data: { a: [1] }, metadata: { mimeType: 'application/json+a2ui' } },
      { url: 'https://example.com/x.png', metadata: { alt: 'x' } },
      { raw: 'aGk=', mediaType: 'text/plain', metadata: { $bytes: 'as it is' } },
    ];
    const { history, artifacts } = (await client.send(parts)) as A2ATask;
    expect(given.map(({ metadata }) => metadata)).toEqual(parts.map(({ metadata }) => metadata));
    expect(history?.[0]?.parts).toMatchObject(parts);
    expect(artifacts?.[0]?.parts).toMatchObject([...parts, ...parts]);
  });
