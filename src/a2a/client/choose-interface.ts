import { DuolaneError } from '../../errors.ts';
import { asObjects, asString, type JsonObject } from '../../json.ts';
import type { Version } from '../protocol/dialect.ts';

/** A binding that the client supports, under the name that cards use. */
export type ClientBinding = HttpBinding | 'GRPC';

/** A binding that works wherever `fetch` does. */
export type HttpBinding = 'JSONRPC' | 'HTTP+JSON';

/** One address of an agent, with its binding and version. */
export interface Interface {
  /** For gRPC `grpc://host:port`, or `grpcs://`. */
  readonly url: string;
  readonly binding: ClientBinding;
  readonly version: Version;
  readonly tenant?: string;
}

/** Which interface of a card to prefer. */
export interface Preference<Binding extends ClientBinding = ClientBinding> {
  /**
   * The protocol version; by default the newest that both sides support. An interface whose card
   * names an unknown version is used with this one.
   */
  readonly version?: Version;
  /** The binding; by default the first one of the card that this client supports. */
  readonly binding?: Binding;
}

/**
 * Chooses an interface of a card, in the form of 1.0 or 0.3, over one of these bindings. `secure`:
 * the card was read over TLS, so a gRPC address without a scheme is TLS too. Throws `unsupported`
 * if client and agent share none.
 */
export function chooseInterface(
  card: JsonObject,
  { version, binding }: Preference,
  bindings: readonly ClientBinding[],
  secure: boolean,
): Interface {
  const offered = [...interfaces10(card, version), ...interfaces03(card, version)].flatMap((each) =>
    each.binding === 'GRPC' ? withTarget(each, secure) : URL.canParse(each.url) ? [each] : [],
  );
  const fitting = offered.filter(
    (each) =>
      (version === undefined || each.version === version) &&
      bindings.includes(each.binding) &&
      (binding === undefined || each.binding === binding),
  );
  const chosen = fitting.find((each) => each.version === '1.0') ?? fitting[0];
  if (chosen) return chosen;
  const wanted = [version ?? '1.0 or 0.3', binding ?? bindings.join(' or ')].join(' over ');
  throw new DuolaneError(
    'unsupported',
    `the agent card has no interface for A2A ${wanted}${hint(card, version)}${grpcHint(offered, bindings)}`,
  );
}

/** Advice for a card with gRPC, if this client has none. */
const grpcHint = (offered: readonly Interface[], bindings: readonly ClientBinding[]): string =>
  !bindings.includes('GRPC') && offered.some(({ binding }) => binding === 'GRPC')
    ? '; it has one over GRPC: use connectA2A of duolane/a2a, on Node'
    : '';

/**
 * Advice for a card that names an unknown version: some servers support one that they do not name.
 */
function hint({ protocolVersion }: JsonObject, version: Version | undefined): string {
  if (version !== undefined || typeof protocolVersion !== 'string') return '';
  return `; it names version ${JSON.stringify(protocolVersion)}: if the agent supports 0.3 anyway, pass version: '0.3'`;
}

/** The interfaces of a 1.0 card. `wanted`: the version to assume if a card names an unknown one. */
function interfaces10(
  { supportedInterfaces }: JsonObject,
  wanted: Version | undefined,
): Interface[] {
  return asObjects(supportedInterfaces).flatMap(
    ({ url, protocolBinding, protocolVersion, tenant }) =>
      read(url, protocolBinding, protocolVersion, wanted, tenant),
  );
}

function interfaces03(card: JsonObject, wanted: Version | undefined): Interface[] {
  const { url, preferredTransport = 'JSONRPC', additionalInterfaces, protocolVersion } = card;
  if (url === undefined) return [];
  const version = protocolVersion ?? '0.3';
  return [
    ...read(url, preferredTransport, version, wanted),
    ...asObjects(additionalInterfaces).flatMap((each) =>
      read(each['url'], each['transport'], version, wanted),
    ),
  ];
}

function read(
  url: unknown,
  binding: unknown,
  named: unknown,
  wanted: Version | undefined,
  tenant?: unknown,
): Interface[] {
  const [short = ''] = /^\d+\.\d+/.exec(asString(named)) ?? [];
  const version = short === '1.0' || short === '0.3' ? short : wanted;
  if (typeof url !== 'string') return [];
  if (binding !== 'JSONRPC' && binding !== 'HTTP+JSON' && binding !== 'GRPC') return [];
  if (version === undefined) return [];
  return [
    { url, binding, version, ...(typeof tenant === 'string' && tenant !== '' && { tenant }) },
  ];
}

/**
 * Normalizes a gRPC address to `grpc://` or `grpcs://`: cards have `host:port`, or one of four
 * schemes.
 */
function withTarget(found: Interface, secure: boolean): Interface[] {
  const [, scheme = secure ? 'https' : 'http', rest = ''] =
    /^(?:(https?|grpcs?):\/\/)?(.+)$/.exec(found.url) ?? [];
  const url = `grpc${scheme.endsWith('s') ? 's' : ''}://${rest}`;
  return URL.canParse(url) ? [{ ...found, url }] : [];
}
