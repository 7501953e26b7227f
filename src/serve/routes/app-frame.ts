import { DuolaneError } from '../../errors.ts';
import { headerOf } from '../../http/node-request.ts';
import { textResponse } from '../../http/text-response.ts';
import { isAppAddress } from '../app-address.ts';
import { httpRoute, type HttpRoute } from '../router.ts';

/** How many addresses an app may declare for one purpose. */
const MAX_DOMAINS = 50;

/**
 * The empty document of an app. It replaces itself with the HTML that the page sends. No other
 * window can send it, and a document that is not in a frame takes none.
 */
const EMPTY = `<!doctype html><meta charset="utf-8"><title>App</title><script>
addEventListener('message', function take(event) {
  if (parent === window || event.source !== parent || event.origin !== location.origin) return;
  removeEventListener('message', take);
  document.open();
  document.write(event.data.params.html);
  document.close();
});
</script>`;

/**
 * `GET /mcp-app` is the document in which the page runs an app of a tool server. Its headers put it
 * into a sandbox with an origin of its own, in any window: it reads nothing of the page and sends
 * no cookie. It connects only to the addresses in the query, which the tool server declares.
 */
export const appFrameRoute: HttpRoute = httpRoute('GET', '/mcp-app', ({ request, url }) => {
  // A browser names the purpose of a request.
  if ((headerOf(request, 'sec-fetch-dest') ?? 'iframe') !== 'iframe')
    throw new DuolaneError('invalid', 'cannot open an app by its address; use the page');
  return textResponse(EMPTY, 200, {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': appPolicy(url.searchParams),
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-store',
  });
});

/** The policy for the addresses that an app declares. Throws `invalid` for any other text. */
function appPolicy(declared: URLSearchParams): string {
  const at = (purpose: string): string => {
    const given = declared.getAll(purpose);
    if (given.length > MAX_DOMAINS)
      throw new DuolaneError(
        'invalid',
        `the app exceeds the limit of ${MAX_DOMAINS} addresses to ${purpose}: ${given.length}`,
      );
    const wrong = given.find((each) => !isAppAddress(each));
    if (wrong === undefined) return given.join(' ');
    throw new DuolaneError(
      'invalid',
      `invalid address "${wrong}" of an app: expected e.g. https://api.example.com`,
    );
  };
  const resources = at('resource');
  const directives = [
    'sandbox allow-scripts allow-forms',
    "default-src 'none'",
    `script-src 'unsafe-inline' ${resources}`,
    `style-src 'unsafe-inline' ${resources}`,
    `img-src data: blob: ${resources}`,
    `font-src data: ${resources}`,
    `media-src data: blob: ${resources}`,
    `connect-src ${at('connect') || "'none'"}`,
    `frame-src ${at('frame') || "'none'"}`,
    `base-uri ${at('base') || "'none'"}`,
    "object-src 'none'",
    "form-action 'none'",
    "frame-ancestors 'self'",
  ];
  return directives.map((each) => each.trim()).join('; ');
}
