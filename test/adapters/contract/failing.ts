import { expect, test } from 'vitest';
import type { ModelReply } from '../../support/model-server.ts';
import { joined, only, type Stage, TEXT, whole } from './stage.ts';

/** Failures of the provider: reported with their status, retried in one layer, without repeated text. */
export function failing(stage: Stage): void {
  test('429, then success: one retry event, and no text twice', async () => {
    const script = [{ status: 429, message: 'slow down' }, { text: TEXT }];
    const { events, end, model } = await stage.play(script, { wrap: stage.retrying });
    expect(end).toMatchObject({ outcome: 'completed', text: whole });
    expect(only(events, 'retry')).toMatchObject([
      { attempt: 1, error: { code: 'rate_limited', status: 429 } },
    ]);
    expect(model.calls).toHaveLength(2);
  });

  test('500 to the last attempt: a failure with its status', async () => {
    const { events, end, model } = await stage.play(() => ({ status: 500, message: 'broken' }), {
      wrap: stage.retrying,
    });
    expect(end).toMatchObject({
      outcome: 'failed',
      error: { code: 'server', status: 500, retryable: true },
    });
    expect(only(events, 'retry')).toHaveLength(2);
    expect(model.calls).toHaveLength(3);
  });

  test('400: a failure without a retry', async () => {
    const { end, model } = await stage.play([{ status: 400, message: 'no' }], {
      wrap: stage.retrying,
    });
    expect(end).toMatchObject({ outcome: 'failed', error: { code: 'invalid', status: 400 } });
    expect(model.calls).toHaveLength(1);
  });

  test('a stream that breaks: a network failure, and the text so far stays', async () => {
    const cut: ModelReply = { text: ['one ', 'two ', 'three'], fail: { after: 4, how: 'cut' } };
    const { events, end } = await stage.play(() => cut);
    expect(end).toMatchObject({ outcome: 'failed', error: { code: 'network' } });
    if (stage.harness.retries === 'own') return;
    expect(joined(events, 'text.delta')).toMatch(/^one /);
    expect(end.text).toMatch(/^one /);
  });

  stage.unless('in stream error')(
    'an error inside the stream: a failure, with its meaning',
    async () => {
      const bad: ModelReply = { text: ['one ', 'two'], fail: { after: 4, how: 'error' } };
      const { end } = await stage.play(() => bad);
      expect(end).toMatchObject({
        outcome: 'failed',
        error: { code: 'overloaded', status: 529 },
      });
    },
  );

  test('the text of a failed attempt is discarded', async () => {
    const cut: ModelReply = { text: ['one ', 'two ', 'three'], fail: { after: 4, how: 'cut' } };
    const { events, end } = await stage.play([cut, { text: TEXT }], { wrap: stage.retrying });
    expect(end).toMatchObject({ outcome: 'completed', text: whole });
    expect(only(events, 'retry')).toMatchObject([{ discard: true, error: { code: 'network' } }]);
  });
}
