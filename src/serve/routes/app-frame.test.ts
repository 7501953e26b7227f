import { describe, expect, test } from 'vitest';
import { appFrameRoute } from './app-frame.ts';

const open = async (query: string, headers: Record<string, string> = {}): Promise<Response> => {
  const url = new URL(`http://127.0.0.1/mcp-app?${query}`);
  const request = new Request(url, { headers });
  return appFrameRoute.handle({ request, url, params: {}, owner: undefined });
};
const policyOf = async (query: string): Promise<string> =>
  (await open(query)).headers.get('content-security-policy') ?? '';

describe('the frame of an app', () => {
  test('is a sandbox without an origin, and reaches nothing by default', async () => {
    const policy = (await policyOf('')).split('; ');
    expect(policy).toContain('sandbox allow-scripts allow-forms');
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("connect-src 'none'");
    expect(policy).toContain("frame-src 'none'");
    expect(policy).toContain("frame-ancestors 'self'");
    expect(policy.join()).not.toMatch(/allow-same-origin|allow-top|allow-popups|unsafe-eval/);
  });

  test('reaches what the app declares, each for its purpose', async () => {
    const query =
      'connect=https%3A%2F%2Fapi.example.com&connect=wss%3A%2F%2Flive.example.com%3A8443&resource=https%3A%2F%2F*.cdn.example&frame=https%3A%2F%2Fvideo.example';
    const policy = (await policyOf(query)).split('; ');
    expect(policy).toContain('connect-src https://api.example.com wss://live.example.com:8443');
    expect(policy).toContain("script-src 'unsafe-inline' https://*.cdn.example");
    expect(policy).toContain('frame-src https://video.example');
  });

  test.each([
    ['plain HTTP', 'connect=http%3A%2F%2Fapi.example.com'],
    ['another directive', `connect=${encodeURIComponent("https://a.example; script-src 'self'")}`],
    ['a keyword', `resource=${encodeURIComponent("'unsafe-eval'")}`],
    [
      'two addresses in one',
      `resource=${encodeURIComponent('https://a.example https://b.example')}`,
    ],
    ['every address', 'connect=*'],
    ['every address of a scheme', 'connect=https%3A'],
    ['a long address', `connect=https%3A%2F%2F${'a.'.repeat(200)}example`],
    ['many addresses', 'connect=https%3A%2F%2Fa.example&'.repeat(51)],
  ])('an app that declares %s is refused', async (_, query) => {
    await expect((async () => open(query))()).rejects.toMatchObject({ code: 'invalid' });
  });

  test('opens in a frame only, in browsers that name the purpose of a request', async () => {
    expect((await open('', { 'sec-fetch-dest': 'iframe' })).status).toBe(200);
    await expect((async () => open('', { 'sec-fetch-dest': 'document' }))()).rejects.toMatchObject({
      code: 'invalid',
    });
  });
});
