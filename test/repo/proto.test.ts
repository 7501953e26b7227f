import { expect, test } from 'vitest';
import { stale } from '../../scripts/generate-proto.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';

const generator = await peer('protobuf');

suite('protobuf', generator.reason, () => {
  test('the generated code is current', async () => {
    expect(await stale()).toEqual([]);
  });
});
