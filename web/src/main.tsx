import { render } from 'preact';
import { App } from './app.tsx';
// The order matters: a rule of a later file overrides an equal one of an earlier file.
import './style/tokens.css';
import './style/base.css';
import './style/task.css';
import './style/timeline.css';

render(<App />, document.body);
