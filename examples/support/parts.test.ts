import { expect, test } from 'vitest';
import { acknowledge, dataPart, filePart, jsonTextPart } from './parts.ts';

test('parts have the shapes that readers know', () => {
  expect(acknowledge()).toEqual({ type: 'status', message: 'Analysing your request...' });
  expect(jsonTextPart({ a: 1 })).toEqual({ text: '{"a":1}', mediaType: 'application/json' });
  expect(dataPart([1])).toEqual({ data: [1] });
  expect(filePart('s3://x', 'parquet', { rowCount: 2, columns: ['a'] })).toEqual({
    data: {
      type: 'artifact',
      uri: 's3://x',
      resource_type: 'parquet',
      metadata: { row_count: 2, columns: ['a'] },
    },
  });
});
