import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import type { Version } from '../protocol/dialect.ts';

export type ClientBinding = 'JSONRPC' | 'HTTP+JSON' | 'GRPC';

export interface Interface {
  /** Of gRPC: `grpc://host:port`, or `grpcs://`. */
  readonly url: string;
  readonly binding: ClientBinding;
  readonly version: Version;
  readonly tenant?: string;
}

export interface Preference {
  /** By default the newest that both speak. An agent whose card names a version of neither is spoken to in this one. */
  readonly version?: Version;
  /** By default the first of the card that this client speaks. */
  readonly binding?: ClientBinding;
}

/**
 * Where and how to talk to the agent of a card, old or new. `secure`: the card came over TLS, so an
 * address without a scheme means that, too. Throws `unsupported` when there is no common way.
 */
export function chooseInterface(
  card: JsonObject,
  { version, binding }: Preference,
  secure = false,
): Interface {
  const offered = [...interfaces10(card, version), ...interfaces03(card, version)].flatMap((each) =>
    each.binding === 'GRPC' ? withTarget(each, secure) : URL.canParse(each.url) ? [each] : [],
  );
  const fitting = offered.filter(
    (each) =>
      (version === undefined || each.version === version) &&
      (binding === undefined || each.binding === binding),
  );
  const chosen = fitting.find((each) => each.version === '1.0') ?? fitting[0];
  if (chosen) return chosen;
  const wanted = [version ?? '1.0 or 0.3', binding ?? 'JSONRPC, HTTP+JSON or GRPC'].join(' over ');
  throw new DuolaneError(
    'unsupported',
    `the agent's card offers no A2A ${wanted}${hint(card, version)}`,
  );
}

/** Some servers speak a version that their card does not name. */
function hint({ protocolVersion }: JsonObject, version: Version | undefined): string {
  if (version !== undefined || typeof protocolVersion !== 'string') return '';
  return `; it names ${JSON.stringify(protocolVersion)}: if the agent speaks 0.3 all the same, pass version: '0.3'`;
}

/** `wanted`: the version that an interface with an unknown one is taken for. */
function interfaces10(
  { supportedInterfaces }: JsonObject,
  wanted: Version | undefined,
): Interface[] {
  return objects(supportedInterfaces).flatMap(({ url, protocolBinding, protocolVersion, tenant }) =>
    read(url, protocolBinding, protocolVersion, wanted, tenant),
  );
}

function interfaces03(card: JsonObject, wanted: Version | undefined): Interface[] {
  const { url, preferredTransport = 'JSONRPC', additionalInterfaces, protocolVersion } = card;
  if (url === undefined) return [];
  const version = protocolVersion ?? '0.3';
  return [
    ...read(url, preferredTransport, version, wanted),
    ...objects(additionalInterfaces).flatMap((each) =>
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
  const [short = ''] = /^\d+\.\d+/.exec(typeof named === 'string' ? named : '') ?? [];
  const version = short === '1.0' || short === '0.3' ? short : wanted;
  if (typeof url !== 'string') return [];
  if (binding !== 'JSONRPC' && binding !== 'HTTP+JSON' && binding !== 'GRPC') return [];
  if (version === undefined) return [];
  return [
    { url, binding, version, ...(typeof tenant === 'string' && tenant !== '' && { tenant }) },
  ];
}

/** Cards have `host:port` for gRPC, or a URL of one scheme or another. */
function withTarget(found: Interface, secure: boolean): Interface[] {
  const [, scheme = secure ? 'https' : 'http', rest = ''] =
    /^(?:(https?|grpcs?):\/\/)?(.+)$/.exec(found.url) ?? [];
  const url = `grpc${scheme.endsWith('s') ? 's' : ''}://${rest}`;
  return URL.canParse(url) ? [{ ...found, url }] : [];
}

const objects = (value: unknown): JsonObject[] =>
  Array.isArray(value) ? (value as unknown[]).filter(isObject) : [];
