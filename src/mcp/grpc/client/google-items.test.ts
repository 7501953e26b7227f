import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { CallToolResponse_ContentSchema } from '../gen/model_context_protocol/mcp_pb.ts';
import { fromGoogleContent } from './google-items.ts';

test('an empty text is a content block', () => {
  const block = create(CallToolResponse_ContentSchema, { text: { text: '' } });
  expect(fromGoogleContent(block)).toEqual({ type: 'text', text: '' });
});

test('a content block of an unknown kind is refused', () => {
  expect(() => fromGoogleContent(create(CallToolResponse_ContentSchema))).toThrow(
    'the server sent a content block of an unknown kind',
  );
});
