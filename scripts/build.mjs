// `npm run build`: brings `dist` up to date, and takes out what no source makes any more.
import { build } from './setup.mjs';

const { code } = await build({ quiet: false });
process.exitCode = code;
