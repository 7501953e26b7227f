import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import type { GrpcClient } from '../../../grpc/index.ts';
import { NO_LIMITS } from '../../sources/request-timer.ts';
import { CallToolResponseSchema } from '../gen/model_context_protocol/mcp_pb.ts';
import { googleSource } from './google-source.ts';

const response = (blocks: number, text: string) =>
  create(CallToolResponseSchema, {
    content: Array.from({ length: blocks }, () => ({ text: { text } })),
  });

async function resultOf(responses: number, each: object): Promise<unknown> {
  async function* stream() {
    for (let n = 0; n < responses; n += 1) yield each;
  }
  const client = { stream } as Partial<GrpcClient> as GrpcClient;
  const call = googleSource(client, NO_LIMITS, 's').callTool({ id: '1', name: 'a', args: {} });
  for await (const event of call) return event;
  return undefined;
}

test.each([
  ['long texts', 1000, response(1, 'x'.repeat(1 << 20))],
  ['empty texts', 10_000, response(100, '')],
])('a server cannot fill the memory of its caller with %s', async (_, responses, each) => {
  await expect(resultOf(responses, each)).rejects.toMatchObject({ code: 'too_large' });
});

test('a message with very many blocks is a result', async () => {
  expect(await resultOf(1, response(200_000, ''))).toMatchObject({ type: 'result' });
});
