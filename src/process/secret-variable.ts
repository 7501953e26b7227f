/** Words in a name that mark its value as a secret: OPENAI_API_KEY, GITHUB_TOKEN, DB_PASSWORD. */
const SECRET_WORDS: ReadonlySet<string> = new Set([
  'AUTH',
  'AUTHORIZATION',
  'BEARER',
  'COOKIE',
  'COOKIES',
  'CREDENTIAL',
  'CREDENTIALS',
  'CREDS',
  'DSN',
  'JWT',
  'KEY',
  'KEYS',
  'PASS',
  'PASSCODE',
  'PASSPHRASE',
  'PASSWD',
  'PASSWORD',
  'PAT',
  'SECRET',
  'SECRETS',
  'TOKEN',
]);

/** Ends of a word that say the same: AUTHTOKEN, PGPASSWORD. */
const SECRET_ENDS = [
  'ACCESSKEY',
  'APIKEY',
  'AUTHKEY',
  'CREDENTIALS',
  'ENCRYPTIONKEY',
  'MASTERKEY',
  'PASSWORD',
  'PRIVATEKEY',
  'SECRET',
  'SECRETKEY',
  'SIGNINGKEY',
  'TOKEN',
];

/** Secrets whose names do not say so. */
const SECRET_NAMES: ReadonlySet<string> = new Set([
  'ANTHROPIC_CUSTOM_HEADERS',
  'AWS_ACCESS_KEY_ID',
  'OTEL_EXPORTER_OTLP_HEADERS',
  'PGPASSFILE',
  'SSHPASS',
]);

/** No secrets, whatever their names say: the path of a socket. */
const PLAIN_NAMES: ReadonlySet<string> = new Set(['SSH_AUTH_SOCK']);

/** `postgres://user:password@host`; a proxy is needed to reach the network, with its password. */
const hasPassword = (name: string, value: string): boolean =>
  /^[a-z][a-z0-9+.-]{0,30}:\/\/[^\s/@:]*:[^\s/@]+@/i.test(value) && !/_proxy$/i.test(name);

/** Whether a variable of an environment holds a secret, by its name or by its value. */
export function isSecretVariable(name: string, value: string): boolean {
  const upper = name.toUpperCase();
  if (PLAIN_NAMES.has(upper)) return false;
  return (
    SECRET_NAMES.has(upper) ||
    // PWD and OLDPWD are folders.
    upper.endsWith('_PWD') ||
    upper.endsWith('CONNECTION_STRING') ||
    wordsOf(name).some(
      (word) => SECRET_WORDS.has(word) || SECRET_ENDS.some((end) => word.endsWith(end)),
    ) ||
    hasPassword(name, value)
  );
}

/** `GITHUB_TOKEN_2` and `githubToken` are both GITHUB and TOKEN. */
const wordsOf = (name: string): string[] =>
  name
    .replace(/([a-z])([A-Z])/g, '$1_$2')
    .toUpperCase()
    .split(/[^A-Z]+/);
